"""The answers that people read of incidents, traces, runs and contracts (DESIGN section 14).

The services make them; REST, the command line and the console present them. An incident is for callers who may
`get aianalyses` in its namespace, its custom labels for those who may `get aianalyses/constraints`.
"""

import hashlib
from typing import Any, Literal, get_args

from pydantic import Field

from formulary_catalog.domain.answers.browsing import PendingApproval
from formulary_catalog.domain.answers.catalog import Answer, SearchAnswer
from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.domain.audit.export import FileName

_STATE_DIGITS = 12
_NEXT = "Give it as cursor for the page after this one; empty on the last."


class TraceSummary(Answer):
    """A trace in a list. Times are RFC 3339."""

    trace_id: str
    analysis: str = Field(description="namespace/name of the incident's AIAnalysis; empty without one.")
    signal_name: str = Field(
        description="Signal of the incident; empty once the incident is deleted, as are severity and target."
    )
    severity: str
    target: str = Field(description="namespace/kind/name of the affected resource.")
    namespaces: list[str] = Field(description="The namespaces that it belongs to.")
    began: str
    changed: str
    events: int
    caller: str = Field(description="Caller of its first event.")
    first_event: str = Field("", description="Kind of its first event.")
    query: str = Field("", description="What the first event searched for; empty if it is no search.")
    last_event: str = Field(description="Kind of the newest event.")
    outcome: str = Field(description="State of its newest run, real ones first; none without a run.")
    state: str = Field(
        "",
        description="The same as people mean it: dry_run where nothing was changed, refused where nothing started; "
        "helped, not_helped or relapsed once that is known of a run that ended well.",
    )
    held: bool = Field(description="Whether a legal hold keeps it.")

    @property
    def is_unknown(self) -> bool:
        """Whether it is of a remediation id that no AIAnalysis ever had, such as a misspelt one."""
        recorded = bool(self.first_event) and not self.trace_id.startswith(OWN_TRACE)
        return recorded and not (self.analysis or self.namespaces)


class TracePage(Answer):
    """Traces, the last changed first."""

    traces: list[TraceSummary]
    next_cursor: str = Field(description=_NEXT)
    notes: list[str] = Field(default_factory=list)


class StoryLine(Answer):
    """A detail of an event and its label."""

    label: str
    text: str
    tone: str


class StoryTitle(Answer):
    """An event or an outcome in a few words."""

    title: str
    tone: str = Field(description="plain, good, waiting or bad.")


class StoryPassage(StoryTitle):
    """One event in words."""

    seq: int
    at: str
    elapsed: float = Field(description="Seconds since the trace began.")
    caller: str = Field(description="Empty if it is the caller of the event before.")
    lines: list[StoryLine]


class TraceStory(Answer):
    """The trace in words, as `formulary trace show` prints it; passages are those of the page."""

    outcomes: list[StoryTitle]
    began: str
    took: float = Field(description="Seconds.")
    analysis: str
    passages: list[StoryPassage]


UNPROVEN = (
    "Nothing here proves that no newer events were cut off, nor are signatures checked: "
    "`formulary trace verify --published` does both."
)


class TraceFinding(Answer):
    """Something that is not as it was recorded."""

    problem: str
    trace_id: str
    first: int
    last: int
    message: str


class TraceVerification(Answer):
    """Whether the chain of the trace is intact.

    Covers the whole trace. Of a very long one it covers the events around the page; the pages together cover all.
    """

    status: str
    passed: bool
    not_proven: str = Field(UNPROVEN, description="What this verification cannot show.")
    event_count: int = Field(description="How many events were verified.")
    first: int = Field(description="Number of the first event that was verified.")
    last: int = Field(description="Number of the last event that was verified.")
    findings: list[TraceFinding]


class TraceAnswer(Answer):
    """A page of one trace: as it was recorded, in words, and whether it is intact."""

    trace_id: str
    namespaces: list[str]
    total: int = Field(description="How many events the trace has.")
    story: TraceStory
    verification: TraceVerification
    events: list[dict[str, Any]] = Field(description="Events of the page, as an export has them.")
    next_cursor: str = Field(description=_NEXT)


class TraceFiles(Answer):
    """One trace as files that outlive the database, those of `formulary trace export`."""

    trace_id: str
    passed: bool = Field(description="Whether the chain of the trace is unbroken.")
    files: dict[FileName, str] = Field(
        min_length=len(get_args(FileName)), description="The text of each file; the events are a line of JSON each."
    )


class IncidentSummary(Answer):
    """An incident in a list."""

    incident: str = Field(description="namespace/name of the AIAnalysis; the remediation id of an alert.")
    remediation_id: str
    namespace: str
    name: str
    signal_name: str
    severity: str
    environment: str
    priority: str
    cluster: str
    target: str = Field(description="namespace/kind/name of the affected resource.")
    changed: str
    gone: bool = Field(description="Whether the object is deleted; late calls still obey it for a while.")
    state: str = Field("", description="firing or resolved, of an alert; empty for an AIAnalysis.")
    run: str = Field("", description="What became of its newest run, as `state` of a trace says it; empty without one.")


class EpisodeAnswer(Answer):
    """From when to when an alert fired; `ended` is empty while it does."""

    began: str
    ended: str


class AlertAnswer(Answer):
    """The alert of an incident."""

    source: str = Field(description="namespace/name of the IncidentSource that reported it.")
    messages: int = Field(description="How often it was reported.")
    seen: str = Field(description="When it was reported last.")
    annotations: dict[str, str]
    episodes: list[EpisodeAnswer] = Field(description="The newest first, at most 20.")


class IncidentPage(Answer):
    """Incidents, the last changed first."""

    incidents: list[IncidentSummary]
    next_cursor: str = Field(description=_NEXT)
    notes: list[str] = Field(default_factory=list)


class IncidentAnswer(IncidentSummary):
    """One incident with all that it demands of a workflow."""

    custom_labels: dict[str, list[str]] = Field(description="For callers who may get aianalyses/constraints.")
    strict_keys: list[str] = Field(description="Custom labels that a workflow must declare, for the same callers.")
    detected_labels: dict[str, str]
    trace_id: str = Field(description="Trace of its calls; it exists after the first call.")
    alert: AlertAnswer | None = None
    query: str = Field("", description="Name, severity and annotations of the alert, which the offer answers.")
    offer: SearchAnswer | None = Field(
        None, description="What the reader would be offered for the incident; null where a note says why not."
    )
    notes: list[str]


class InvocationSummary(Answer):
    """A run in a list. Times are RFC 3339, empty while they are not known."""

    invocation_id: str
    state: str = Field(
        description="What became of it: the state of a run, or dry_run, refused, helped, not_helped or relapsed."
    )
    phase: str
    reason: str
    message: str
    workflow_id: str
    version: str
    version_id: str
    namespace: str
    target: str
    requester: str
    remediation_id: str
    trace_id: str
    dry_run: bool
    created_at: str
    started_at: str
    finished_at: str
    outcome: str = Field("", description="Helped, NotHelped, Unknown or Relapsed; empty until it is decided.")


class InvocationPage(Answer):
    """Runs, the newest first."""

    invocations: list[InvocationSummary]
    next_cursor: str = Field(description=_NEXT)
    notes: list[str] = Field(default_factory=list)


class PeriodOutcomes(Answer):
    """How the real runs that ended in a period ended."""

    begins: str = Field(description="Its first day (UTC).")
    succeeded: int
    failed: int = Field(description="Includes runs that were cancelled, halted or late.")


class OutcomesAnswer(Answer):
    """How runs ended over time, of those that the caller may read; periods without a run are included."""

    workflow_id: str = Field(description="namespace/name of the workflow whose versions are counted; empty for all.")
    by: Literal["day", "week"] = Field(description="Length of a period; the last one ends today.")
    periods: list[PeriodOutcomes] = Field(description="The oldest first.")

    @property
    def total(self) -> int:
        """How many runs ended."""
        return sum(each.succeeded + each.failed for each in self.periods)


class StepText(Answer):
    """A step of a run as a person reads it."""

    name: str
    command: str = Field(description="With the inputs filled in; sensitive ones are hidden.")


class AgentChoice(Answer):
    """What is wrong and why an agent chose the workflow of a run, as its trace has it."""

    signal_name: str = Field(description="Signal of the incident; empty without an incident, as is severity.")
    severity: str
    reasoning: str = Field(description="Reasoning of the recorded selection; empty without one.")
    confidence: float | None = Field(description="Confidence of the selection, 0..1; null without one.")
    chosen_by: str = Field(
        "", description="Who recorded the selection, which need not be who asks for the run; empty without one."
    )
    offered: list[str] = Field(description="The other workflows that the same search returned.")


class WaitingRun(PendingApproval):
    """A run that waits for a person, with what that person has to judge."""

    version_id: str
    title: str = Field("", description="Title of the workflow.")
    purpose: str = Field("", description="What the workflow does.")
    environment: str = Field("", description="Environment of the incident or target.")
    restarts: str = Field("", description="Whether it restarts pods, as its author declares it: yes, no or empty.")
    data_loss: str = Field("", description="Whether it can lose data, as its author declares it: yes, no or empty.")
    undo: list[str] = Field(default_factory=list, description="Its rollback steps.")
    choice: AgentChoice | None = Field(
        None,
        description="Alert and reasoning; null for callers who may not get aianalyses in the incident's namespace.",
    )
    risk: str = Field("unknown", description="Decided risk: low, medium, high or critical.")
    risks: list[str] = Field(default_factory=list, description="What was found to speak against the run.")
    rules: list[str] = Field(default_factory=list, description="Rules of contracts that match the run.")
    steps: list[StepText] = Field(default_factory=list, description="Its commands; empty while they are unknown.")
    risk_level: str = Field(description="low, medium, high or unknown, as its author declares it.")
    why: list[str] = Field(description="What the rules and risks say.")
    content: dict[str, Any] = Field(
        description="What would run: digest, images, ServiceAccount, Secrets, parameters, steps, manifest; empty while "
        "unknown."
    )
    digest: str = Field(description="Digest of the content; an approval that names it counts for this content alone.")
    remediation_id: str
    trace_id: str
    may_approve: bool = Field(description="Whether the caller may approve and reject it.")

    @property
    def state(self) -> str:
        """Names the run with all that is shown of it: another one once anything of that is another."""
        return f"{self.invocation_id}.{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:_STATE_DIGITS]}"


class WaitingRunList(Answer):
    """The runs that wait for a person, the oldest first."""

    approvals: list[WaitingRun]
    total: int
    may_read: bool = Field(
        True, description="False where nothing is listed and the caller may read the runs of no known namespace."
    )
    next_cursor: str = Field("", description=_NEXT)
    notes: list[str]


class RuleUse(Answer):
    """How often a rule counted, of the runs of the last 30 days that the caller may read, the newest 10,000 at most."""

    id: str
    matched: int
    decided: int = Field(description="Runs whose decision names it as a reason.")


class ContractAnswer(Answer):
    """A contract in force."""

    contract: str = Field(description="namespace/name.")
    namespace: str
    name: str
    scope: str
    rules: list[dict[str, Any]] = Field(description="As in the spec of a GovernanceContract.")
    use: list[RuleUse] = Field(description="One for each rule, in their order.")


class ContractList(Answer):
    """The contracts in force, in name order."""

    contracts: list[ContractAnswer]
    total: int
    next_cursor: str = Field("", description=_NEXT)
    notes: list[str]


class DemandAnswer(Answer):
    """One constraint."""

    name: str = Field(description="Label dimension, or key of a custom label.")
    value: str
    custom: bool = Field(description="Whether it is a custom label.")
    strict: bool = Field(description="Whether a workflow that does not declare it is excluded.")
    object: str = Field(description="The object that has the label, as [namespace/]kind/name.")
    label: str = Field(description="Key of the label.")


class TargetAnswer(Answer):
    """What the owners of a target demand."""

    target: str = Field(description="[namespace/]kind/name of the target.")
    demands: list[DemandAnswer]
    detected_labels: dict[str, str] = Field(description="Detected facts; an empty one could not be read.")
    notes: list[str] = Field(default_factory=list)
