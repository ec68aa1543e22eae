"""What an ended incident teaches: what was chosen, whether that helped, and in another document what was said of it.

`store/knowledge/incidents` calls it with the events of one trace. The two are apart because who may see the workflows
of a namespace may know the first, while queries and reasoning are for who may use the incident. Neither holds custom
labels: no event does.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from formulary_catalog.domain.audit.chain import StoredEvent, is_event
from formulary_catalog.domain.audit.passages import is_ok, is_supported
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import spell_duration
from formulary_catalog.domain.knowledge.documents import (
    INCIDENT_ID,
    Collection,
    Document,
    Section,
    documents,
    source_id,
)
from formulary_catalog.domain.knowledge.mentions import KnownWorkflow, named_workflows, possible_names
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.errors import InvalidInput

OUTCOME, REASONING = "outcome", "reasoning"
"""The names of the two sections."""
_MAX_SAID = 20
"""Queries of one incident that are kept, and reasons of one choice: the first ones, repetitions once."""
_LABEL = re.compile(r"[\w./-]{1,63}")
"""What a label of the caller may say: more would be free text."""
_ENDS = ("invocation.finished", "invocation.cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastIncident:
    """An incident whose trace has ended. `said` is its free text, `shown` the ids of the versions in its answers."""

    outcome: tuple[Document, ...]
    reasoning: tuple[Document, ...]
    said: str = field(repr=False)
    shown: frozenset[str]

    @property
    def possible_names(self) -> frozenset[str]:
        """What its free text may name a workflow by, now or later."""
        return possible_names(self.said)

    def documents(self, *, known: Sequence[KnownWorkflow]) -> list[Document]:
        """Its documents. `known` are the workflows with one of the possible names or of those that were shown."""
        named = named_workflows(self.said, known=known, shown=self.shown)
        possible = self.possible_names
        return [
            *self.outcome,
            *(
                replace(each, workflows=each.workflows | named, mentions=possible, free_text=True)
                for each in self.reasoning
            ),
        ]


@dataclass(slots=True)
class _Learned:
    """What the events of a trace say. `shown` are the ids of versions that answers held, `names` the names of those
    that searches found. `chosen` has for each workflow why it was chosen, `runs` which workflow a run is
    of, `ends` how runs ended and `outcomes` what they came to."""

    namespace: str = ""
    names: dict[str, str] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)
    chosen: dict[str, list[str]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)


def past_incident(trace_id: str, events: Sequence[StoredEvent]) -> PastIncident | None:
    """The incident of a trace; None where nobody chose a workflow for an incident or for a target of a namespace.

    Only calls that were answered count: an incident that a refused call names may be made up.
    """
    learned = _Learned()
    for event in events:
        if is_event(event.content):
            _learn(learned, kind=event.kind, payload=Recorded(event.payload))
    if not learned.namespace or not learned.chosen:
        return None
    title = " ".join(filter(None, (learned.facts.get("signal"), learned.facts.get("severity"), "incident")))
    named = frozenset([*learned.chosen, *(learned.runs[run] for run in learned.ends)])

    def document(name: str, title_: str, lines: Iterable[str], *, source: str) -> tuple[Document, ...]:
        made = documents(
            [Section(name, title_, "\n".join(lines))],
            source_id=source_id(INCIDENT_ID, trace_id),
            collection=Collection.INCIDENTS,
            namespace=learned.namespace,
            source_file=f"incident://{learned.namespace}/{source}",
            title=title,
        )
        return tuple(replace(each, workflows=named) for each in made)

    return PastIncident(
        outcome=document(OUTCOME, "Choice and outcome", _outcome(learned), source=source_id(INCIDENT_ID, trace_id)),
        reasoning=document(REASONING, "Queries and reasoning", _reasoning(learned), source=trace_id),
        said="\n".join([*learned.queries, *(reason for reasons in learned.chosen.values() for reason in reasons)]),
        shown=frozenset([*learned.names, *learned.shown]),
    )


def _learn(learned: _Learned, *, kind: str, payload: Recorded) -> None:
    invocation_id = payload.text("invocation_id")
    if is_ok(payload) and (version_id := payload.inner("result").text("version_id")):
        learned.shown.add(version_id)
    if kind == "invocation.requested" and not payload.flag("dry_run"):
        learned.runs[invocation_id] = _bare(payload.text("workflow_id"), "")
    elif kind in _ENDS and invocation_id in learned.runs:
        learned.ends[invocation_id] = _end(payload)
    elif kind == "invocation.verified":
        learned.outcomes[invocation_id] = payload.text("outcome")
    elif kind == "search" and is_ok(payload):
        _learn_search(learned, payload)
    elif kind == "selection" and is_ok(payload) and is_supported(payload):
        _learn_selection(learned, payload)


def _learn_search(learned: _Learned, payload: Recorded) -> None:
    learned.namespace = _namespace(payload) or learned.namespace
    applied = payload.inner("constraints")
    given, inferred = applied.inner("given"), applied.inner("inferred")
    facts = {
        "signal": inferred.text("signal_type") or next(iter(given.texts("signal-type")), ""),
        "severity": inferred.text("severity") or next(iter(given.texts("severity")), ""),
        "environment": applied.inner("incident").text("environment"),
    }
    for name, value in facts.items():
        if _LABEL.fullmatch(value):
            learned.facts.setdefault(name, value)
    learned.names |= {
        each.text("version_id"): name
        for each in payload.inner("result").each("candidates")
        if (name := each.text("workflow"))
    }
    _add(learned.queries, payload.inner("arguments").text("query"))


def _learn_selection(learned: _Learned, payload: Recorded) -> None:
    learned.namespace = _namespace(payload) or learned.namespace
    arguments, result = payload.inner("arguments"), payload.inner("result")
    name = learned.names.get(result.text("version_id")) or arguments.text("workflow_id")
    _add(learned.chosen.setdefault(_bare(name, result.text("namespace")), []), arguments.text("reasoning"))


def _namespace(payload: Recorded) -> str:
    """That of the AIAnalysis; of an incident that an alert or a call itself names by what is broken, that of it."""
    if analysis := payload.text("analysis"):
        return analysis.partition("/")[0]
    with suppress(InvalidInput):  # a trail that was tampered with may say anything
        return parse_target(payload.text("target")).home or ""
    return ""


def _outcome(learned: _Learned) -> Iterator[str]:
    for name, value in learned.facts.items():
        yield f"{name}: {value}"
    for workflow in learned.chosen:
        yield f"chosen: {workflow}"
    for run, end in learned.ends.items():
        outcome = learned.outcomes.get(run)
        yield f"run of {learned.runs[run]}: {end}{f', {outcome}' if outcome else ''}"
    if not learned.ends:
        yield "no run ended"


def _reasoning(learned: _Learned) -> Iterator[str]:
    for query in learned.queries:
        yield f"searched for: {query}"
    for workflow, reasons in learned.chosen.items():
        for reason in reasons:
            yield f"chose {workflow} because: {reason}"


def _end(payload: Recorded) -> str:
    seconds = payload.number("duration_seconds")
    phase = payload.text("phase") or "Cancelled"
    return f"{phase} after {spell_duration(seconds)}" if seconds is not None else phase


def _bare(name: str, namespace: str) -> str:
    """`namespace/name`, without a version: which one it was does not matter for the next time."""
    bare = name.partition("@")[0]
    return bare if "/" in bare or not namespace else f"{namespace}/{bare}"


def _add(said: list[str], text: str) -> None:
    if text and text not in said and len(said) < _MAX_SAID:
        said.append(text)
