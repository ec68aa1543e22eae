"""The answers of the server, one shape for MCP, REST and the command line (DESIGN section 7)."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MAX_HIT_DESCRIPTION = 150
SUCCESS_RATE = "Share of runs that helped, of those that runs_counted counts; null below 5 of them."
SUCCESS_INTERVAL = "95 % interval of success_rate; null when it is."
RUNS_COUNTED = "Runs with a known outcome."
WEAK_CONFIDENCE = 0.5
"""Below it a hit is more likely wrong than right."""


class SearchMode(StrEnum):
    """Which evidence ranked an answer."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    LABELS_ONLY = "labels-only"


class Answer(BaseModel):
    """Base of all answers: closed, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def as_json(self) -> dict[str, Any]:
        """The answer as values of JSON."""
        return self.model_dump(mode="json")


class WorkflowHit(Answer):
    """One workflow in a search answer. Custom labels are never part of it."""

    # Members with a default may be left out of an answer that must be short; they are then not set.

    workflow_id: str
    version: str = ""
    version_id: str
    namespace: str = ""
    title: str
    description: str = Field(default="", description=f"What it does, at most {MAX_HIT_DESCRIPTION} characters.")
    action_type: str
    signal_types: list[str] = []
    labels: dict[str, list[str]] = Field(default={}, description="Declared labels; * matches everything.")
    similarity_score: float | None = Field(description="Cosine, 0..1; null when no embedding was compared.")
    confidence: float = Field(description="0..1: how likely this one is right, or none is. Falls along the list.")
    match_reasons: list[str]
    estimated_duration: str = ""
    success_rate: float | None = Field(default=None, description=SUCCESS_RATE)
    success_interval: list[float] | None = Field(default=None, description=SUCCESS_INTERVAL)
    runs_counted: int = Field(default=0, description=RUNS_COUNTED)
    median_duration_seconds: float | None = Field(
        default=None, description="Median of successful runs; null when unknown."
    )
    risk_level: str
    caution: str = Field(default="", description="Why it may be the wrong one; empty if nothing is known against it.")
    uri: str = Field(description="Its address, with the #section where most words of the query are.")


class SearchAnswer(Answer):
    """The answer to a search. `total_results` counts the allowed workflows, not the page."""

    workflows: list[WorkflowHit]
    total_results: int
    search_mode: str
    inferred: dict[str, str] = Field(
        default={}, description="What the query mentions: signal_type, severity. It ranks, and excludes nothing."
    )
    notes: list[str]
    search_id: str
    time_ms: int = Field(default=0, description="How long the search took on the server.")

    def as_json(self) -> dict[str, Any]:
        """The answer as values of JSON, without what was left out of its hits."""
        return self.model_dump(mode="json", exclude_unset=True)


class WorkflowVersion(Answer):
    """One line of a workflow's history."""

    version: str
    version_id: str
    status: str


class WorkflowDetails(Answer):
    """Everything needed to judge and run one workflow version."""

    workflow_id: str
    version: str
    version_id: str
    namespace: str
    title: str
    status: str
    description: str
    when_to_use: str
    when_not_to_use: str
    preconditions: str
    action_type: str
    signal_types: list[str]
    labels: dict[str, list[str]]
    risk_level: str
    estimated_duration: str
    success_rate: float | None = Field(description=SUCCESS_RATE)
    success_interval: list[float] | None = Field(default=None, description=SUCCESS_INTERVAL)
    runs_counted: int = Field(default=0, description=RUNS_COUNTED)
    median_duration_seconds: float | None = Field(description="Median of successful runs; null when unknown.")
    invocable: bool = Field(description="Whether invoke_workflow can run it.")
    not_invocable_because: str = Field(description="Why it cannot be run; empty if it can.")
    prerequisites: list[str]
    steps: list[dict[str, str]]
    rollback_steps: list[dict[str, str]]
    parameters: list[dict[str, Any]]
    input_schema: dict[str, Any]
    execution: dict[str, Any]
    related: list[dict[str, str]]
    versions: list[WorkflowVersion]
    notes: list[str]
    uri: str


class WorkflowSummary(Answer):
    """One line of a listing."""

    # Members with a default may be left out of an answer that must be short; they are then not set.

    workflow_id: str
    namespace: str = ""
    version: str
    version_id: str = ""
    title: str
    action_type: str
    signal_types: list[str]
    risk_level: str
    status: str
    invocable: bool
    indexed_at: str = Field(default="", description="Time of the last change of its status, RFC 3339.")
    uri: str


class WorkflowList(Answer):
    """A page of workflows in name order. `total_results` is `total`, under the name that older clients read."""

    workflows: list[WorkflowSummary]
    total: int
    total_results: int = 0
    next_cursor: str = Field(default="", description="Give it as cursor for the next page; absent on the last one.")
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """The answer as values of JSON, without what was left out."""
        return self.model_dump(mode="json", exclude_unset=True)


class SelectionReceipt(Answer):
    """Proof that a selection was written to the audit trail."""

    recorded: bool
    workflow_id: str
    version: str
    version_id: str
    search_id: str
    supported: bool = Field(
        description="Whether the choice counts as evidence: false where the search that search_id names, or without "
        "search_id every search of the caller for the incident, did not return this version."
    )
    notes: list[str]


class InvocationAnswer(Answer):
    """The state of a run. Times are RFC 3339, empty while they are not known."""

    invocation_id: str
    state: str = Field(
        description="pending, awaiting_approval, running, completed, failed, timed_out, cancelled or halted; only the "
        "first three may change."
    )
    phase: str
    reason: str
    message: str = Field(description="Why the run is in this state, for a person.")
    workflow_id: str
    version: str
    version_id: str
    namespace: str = Field(description="Namespace of the run.")
    dry_run: bool = Field(description="Whether nothing is changed, as the request or a rule demands.")
    error: str = Field(default="", description="Why it ended without success; empty otherwise.")
    output: dict[str, Any] = Field(description="Outputs of the run.")
    manifest: dict[str, Any] = Field(description="What a dry run would create.")
    requester: str = Field(default="", description="Who requested the run; `unproven` if nobody proved it.")
    content: dict[str, Any] = Field(
        default={},
        description="What would run, while it has not begun: digest, version, images, ServiceAccount, Secrets, "
        "parameters, steps.",
    )
    approval_url: str = Field(
        default="",
        description="Page of the console on which a person decides, while the run waits; a path of this server where "
        "FORMULARY_CONSOLE_URL is not set. Empty otherwise.",
    )
    trace_id: str
    revision: int = Field(description="Grows with every change; give it as after_revision to wait for the next.")
    created_at: str
    started_at: str
    finished_at: str
    duration_seconds: float | None = Field(description="null until it has run and is over.")
    outcome: str = Field(
        default="", description="Helped, NotHelped, Unknown or Relapsed; empty until it is decided, and for dry runs."
    )
    fitness: int | None = Field(
        default=None, description="1 if it helped, 0 if it did not help or relapsed; null while unknown."
    )
    feedback: str = Field(default="", description="What the verification saw, or when the outcome is decided.")
    notes: list[str]
