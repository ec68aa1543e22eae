"""Traces as people read them: which there are, and the story of one, under the rights of who asks.

A trace is readable by who may use the incidents of all namespaces that it belongs to; one that belongs to none, by who
may use those of all namespaces. Another one is answered as if it did not exist. Reading is recorded in a trace of its
own, so that a story does not grow by being read.
"""

from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.audit.chain import StoredEvent
from formulary_catalog.domain.audit.export import discrepancies, event_line
from formulary_catalog.domain.audit.narration import Passage, Story, narrate
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.verification import Replay
from formulary_catalog.domain.audit.wording import Description
from formulary_catalog.domain.cursor import Moment, cursor, moment_of
from formulary_catalog.domain.moments import BEGINNING, moment_said
from formulary_catalog.domain.reading import (
    StoryLine,
    StoryPassage,
    StoryTitle,
    TraceAnswer,
    TraceFinding,
    TracePage,
    TraceStory,
    TraceSummary,
    TraceVerification,
)
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.search.parts import CatalogParts
from formulary_catalog.search.readable import ReadableNamespaces, may_in_all
from formulary_catalog.store.audit.listing import TraceFilter, TraceLister, TraceRow

NO_RUN = "none"
"""The outcome of a trace without a run."""
OUTCOMES = {**{phase.state: phase.value for phase in Phase}, NO_RUN: ""}
"""What a trace may have come to, and the phase of its newest run."""
_MAX_SHOWN = 60
_NO_INCIDENT = ContextReference()


class TraceReading:
    """Answers callers; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts) -> None:
        self._trail, self._traces = parts.trail, parts.traces
        self._lister = TraceLister(parts.database)
        self._readable = ReadableNamespaces(parts.database)

    async def page(
        self,
        *,
        since: str = "",
        namespace: str = "",
        remediation_id: str = "",
        outcome: str = "",
        limit: int,
        after: str = "",
        caller: Caller,
    ) -> TracePage:
        """The traces that changed `since`, the last first; `after` is the cursor of the page before.

        Raises:
            InvalidInput: a filter is malformed, or the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        question = {"since": since, "namespace": namespace, "remediation_id": remediation_id, "outcome": outcome}
        arguments = {name: value for name, value in question.items() if value}
        async with self._trail.record(
            "read.traces", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            wanted = TraceFilter(
                since=moment_said(since, now=datetime.now(UTC), name="since") if since else BEGINNING,
                namespace=namespace,
                trace_id=remediation_id,
                phases=[_phase(outcome)] if outcome else None,
                before=moment_of(after, question=question),
            )
            namespaces = await self._readable.of(caller, USE_CONTEXTS, namespace=namespace)
            rows = await self._lister.page(wanted, namespaces=namespaces, limit=limit + 1)
            shown = rows[:limit]
            record.result = {"total": len(shown)}
            last = Moment(shown[-1].changed_at.isoformat(), shown[-1].trace_id) if len(rows) > limit else None
            return TracePage(
                traces=[_summary(row) for row in shown],
                next_cursor=cursor(last, question=question) if last is not None else "",
            )

    async def story(self, trace_id: str, *, caller: Caller) -> TraceAnswer:
        """One trace, by its id or by the remediation id of its incident.

        Raises:
            NotFound: there is none that the caller may read.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record(
            "read.trace", caller=caller, reference=_NO_INCIDENT, arguments={"trace_id": trace_id}
        ) as record:
            possible = storable(trace_id)
            namespaces = await self._lister.namespaces(trace_id) if possible else []
            # An unknown trace costs a check as well: a check that fails or takes time must not show which ones exist.
            readable = await may_in_all(caller, USE_CONTEXTS, namespaces)
            events = await self._traces.events(trace_id) if possible and readable else []
            if not events:
                raise NotFound(
                    f"no trace {trace_id[:_MAX_SHOWN]!r} that you may read is recorded; give the remediation id of an "
                    f"incident in whose namespace you may {USE_CONTEXTS}; retrying unchanged will fail again",
                    reference=trace_id,
                )
            replay = await self._traces.verify(trace_id)
            record.result = {"total": len(events)}
            return _answer(trace_id, events, replay=replay, namespaces=namespaces)


def _phase(outcome: str) -> str:
    if (phase := OUTCOMES.get(outcome)) is None:
        raise InvalidInput(f"outcome {outcome[:60]!r} is not known; give one of {', '.join(OUTCOMES)}", field="outcome")
    return phase


def _summary(row: TraceRow) -> TraceSummary:
    first = StoredEvent(
        trace_id=row.trace_id, seq=1, kind=row.first_kind, caller="", search_id="", body=row.first_body, hash=""
    )
    payload = Recorded(first.payload)
    return TraceSummary(
        trace_id=row.trace_id,
        analysis=payload.text("analysis"),
        namespaces=[namespace for namespace in row.namespaces if namespace],
        began=_time(first.at),
        changed=_time(row.changed_at),
        events=row.events,
        caller=payload.text("caller"),
        last_event=row.last_kind,
        outcome=Phase(row.phase).state if row.phase else NO_RUN,
        held=row.held,
    )


def _answer(trace_id: str, events: list[StoredEvent], *, replay: Replay, namespaces: list[str]) -> TraceAnswer:
    return TraceAnswer(
        trace_id=trace_id,
        namespaces=[namespace for namespace in namespaces if namespace],
        story=_story(narrate(trace_id, events)),
        verification=TraceVerification(
            status=replay.status,
            passed=replay.passed,
            event_count=replay.event_count,
            findings=[TraceFinding(**finding) for finding in discrepancies(replay)],
        ),
        events=[_event(event) for event in events],
    )


def _story(story: Story) -> TraceStory:
    return TraceStory(
        outcomes=[_title(outcome) for outcome in story.outcomes],
        began=_time(story.began),
        took=story.took,
        analysis=story.analysis,
        passages=[_passage(passage) for passage in story.passages],
    )


def _passage(passage: Passage) -> StoryPassage:
    described = passage.description
    return StoryPassage(
        title=described.title,
        tone=described.tone,
        seq=passage.seq,
        at=_time(passage.at),
        elapsed=passage.elapsed,
        caller=passage.caller,
        lines=[StoryLine(label=line.label, text=line.text, tone=line.tone) for line in described.lines],
    )


def _title(described: Description) -> StoryTitle:
    return StoryTitle(title=described.title, tone=described.tone)


def _event(event: StoredEvent) -> dict[str, Any]:
    read: dict[str, Any] = from_json(event_line(event))
    return read


def _time(at: datetime) -> str:
    """Times of events differ by milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
