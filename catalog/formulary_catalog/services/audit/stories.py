"""A trace as an answer: a page of its events, what they say in words, and what verification says of them.

`services/audit/traces` reads the trace and asks for the answer. The words are those of `formulary trace show`.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

from formulary_catalog.domain.audit.chain import StoredEvent
from formulary_catalog.domain.audit.export import discrepancies, event_line
from formulary_catalog.domain.audit.narration import Passage, Story, narrate
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import Description
from formulary_catalog.domain.cursor import NumberedRow, cursor
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.reading import (
    StoryLine,
    StoryPassage,
    StoryTitle,
    TraceAnswer,
    TraceFinding,
    TraceStory,
    TraceSummary,
    TraceVerification,
)
from formulary_catalog.domain.runs.run import NO_RUN, Phase
from formulary_catalog.store.audit.listing import TraceRow
from formulary_catalog.store.audit.one_trace import TracePart


@dataclass(frozen=True, slots=True)
class FirstEvent:
    """What the first event of a trace says of all of it, and the first that names its incident what that is.

    `analysis` is what a caller claimed, true or not. `query` is what was searched for, `target` what it was about where
    no incident says so.
    """

    at: datetime
    analysis: str = ""
    caller: str = ""
    query: str = ""
    target: str = ""


def first_event(row: TraceRow) -> FirstEvent:
    """The first event of a trace in a list; of one that tampering left without events, what its head says."""
    if not row.first_body:
        return FirstEvent(at=row.changed_at)
    event = _read(row.first_body)
    payload = Recorded(event.payload)
    naming = Recorded(_read(row.naming_body).payload) if row.naming_body else payload
    return FirstEvent(
        at=event.at,
        analysis=naming.text("analysis"),
        caller=payload.text("caller"),
        query=payload.inner("arguments").text("query"),
        target=payload.text("target"),
    )


def is_unknown(row: TraceRow) -> bool:
    """Whether it is of a remediation id that no AIAnalysis ever had: a misspelt id is no incident."""
    return trace_summary(row, first=first_event(row), incidents={}).is_unknown


def trace_summary(row: TraceRow, *, first: FirstEvent, incidents: Mapping[str, RequestContext]) -> TraceSummary:
    """A trace in a list; `incidents` are those that are known, by namespace/name."""
    incident = incidents.get(first.analysis)
    # A call can claim any incident, and a trace is of those alone whose namespaces it belongs to.
    if incident is not None and incident.namespace not in row.namespaces:
        incident = None
    return TraceSummary(
        trace_id=row.trace_id,
        analysis=first.analysis,
        signal_name=incident.signal_name if incident else "",
        severity=incident.severity if incident else "",
        target=incident.target if incident else first.target,
        namespaces=[namespace for namespace in row.namespaces if namespace],
        began=milliseconds(first.at),
        changed=milliseconds(row.changed_at),
        events=row.events,
        caller=first.caller,
        first_event=row.first_kind,
        query=first.query,
        last_event=row.last_kind,
        outcome=Phase(row.phase).state if row.phase else NO_RUN,
        state=row.state or (Phase(row.phase).state if row.phase else NO_RUN),
        held=row.held,
    )


def trace_answer(
    trace_id: str, shown: Sequence[StoredEvent], *, part: TracePart, last: TracePart, namespaces: list[str]
) -> TraceAnswer:
    """The page of the events that are `shown`, of this part of the trace; `last` is the part at its end."""
    numbers = {event.seq for event in shown}
    here = _story(trace_id, part, shown=numbers)
    end = here if last is part else _story(trace_id, last)
    began = next(story.began for story in (here, end) if story is not None)
    newest = shown[-1].seq if shown else part.upto
    return TraceAnswer(
        trace_id=trace_id,
        namespaces=namespaces,
        total=part.total,
        story=TraceStory(
            outcomes=[_title(outcome) for outcome in end.outcomes] if end else [],
            began=milliseconds(began),
            took=end.took if end else 0.0,
            analysis=next((story.analysis for story in (here, end) if story and story.analysis), ""),
            passages=[_passage(passage) for passage in (here.passages if here else ())],
        ),
        verification=_verification(part),
        events=[_event(event) for event in shown],
        next_cursor=cursor(NumberedRow(str(newest)), question={"trace": trace_id}) if newest < part.total else "",
    )


def milliseconds(at: datetime) -> str:
    """A time as RFC 3339: events differ by milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read(body: str) -> StoredEvent:
    return StoredEvent(trace_id="", seq=1, kind="", caller="", search_id="", body=body, hash="")


def _story(trace_id: str, part: TracePart, *, shown: Container[int] = ()) -> Story | None:
    """The story of a part; the event before it says who was the last to speak. None where nothing is left of it."""
    return narrate(trace_id, part.verified, began=part.began, shown=shown) if part.verified else None


def _verification(part: TracePart) -> TraceVerification:
    verified = [event.seq for event in part.verified]
    return TraceVerification(
        status=part.replay.status,
        passed=part.replay.passed,
        event_count=part.replay.event_count,
        first=min(verified, default=0),
        last=max(verified, default=0),
        findings=[TraceFinding(**finding) for finding in discrepancies(part.replay)],
    )


def _passage(passage: Passage) -> StoryPassage:
    described = passage.description
    return StoryPassage(
        title=described.title,
        tone=described.tone,
        seq=passage.seq,
        at=milliseconds(passage.at),
        elapsed=passage.elapsed,
        caller=passage.caller,
        lines=[StoryLine(label=line.label, text=line.text, tone=line.tone) for line in described.lines],
    )


def _title(described: Description) -> StoryTitle:
    return StoryTitle(title=described.title, tone=described.tone)


def _event(event: StoredEvent) -> dict[str, Any]:
    read: dict[str, Any] = from_json(event_line(event))
    return read
