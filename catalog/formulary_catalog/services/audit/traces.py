"""Traces as people read them: which there are, and the story of one, under the rights of who asks.

A trace is readable by who may use the incidents of all namespaces that it belongs to; one that belongs to none, by who
may use those of all namespaces. Another one is answered as if it did not exist. Reading is recorded in a trace of its
own, so that a story does not grow by being read.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.audit.export import trace_files
from formulary_catalog.domain.cursor import TimedRow, cursor, moment_of, number_of
from formulary_catalog.domain.moments import BEGINNING, moment_said
from formulary_catalog.domain.reading import TraceAnswer, TraceFiles, TracePage, TraceSummary
from formulary_catalog.domain.runs.run import OUTCOMES
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import ReadableNamespaces, may_in_all
from formulary_catalog.kernel.trail import Record
from formulary_catalog.services.audit.stories import first_event, is_unknown, trace_answer, trace_summary
from formulary_catalog.store.audit.listing import TraceFilter, TraceLister, TraceRow
from formulary_catalog.store.incidents import IncidentReader

PIECE = 250
"""A trace up to so many events is narrated and verified whole; a longer one in pieces of this size."""
EXPORTED = 2000
_MAX_SHOWN = 60
_NO_INCIDENT = ContextReference()


class TraceReading:
    """Answers callers; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts) -> None:
        self._trail, self._traces = parts.trail, parts.traces
        self._lister = TraceLister(parts.database)
        self._incidents = IncidentReader(parts.database)
        self._readable = ReadableNamespaces(parts.database)

    async def page(
        self,
        *,
        since: str = "",
        namespace: str = "",
        remediation_id: str = "",
        outcome: str = "",
        of_incidents: bool = False,
        limit: int,
        after: str = "",
        caller: Caller,
    ) -> TracePage:
        """The traces that changed `since`, the last first; `outcome` is one of `OUTCOMES`, `after` a cursor.

        `of_incidents` leaves out what belongs to no incident and has no run, such as searches without one.

        Raises:
            InvalidInput: `since` is malformed, or the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        question = {"since": since, "namespace": namespace, "remediation_id": remediation_id, "outcome": outcome}
        if of_incidents:
            question["of"] = "incidents"
        arguments = {name: value for name, value in question.items() if value}
        async with self._trail.record(
            "read.traces", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            wanted = TraceFilter(
                since=moment_said(since, now=datetime.now(UTC), name="since") if since else BEGINNING,
                namespace=namespace,
                trace_id=remediation_id,
                phases=[OUTCOMES[outcome]] if outcome else None,
                of_incidents=of_incidents,
                before=moment_of(after, question=question),
            )
            namespaces, notes, _ = await self._readable.listed(caller, USE_CONTEXTS, namespace=namespace)
            rows = await self._rows(wanted, namespaces=namespaces, limit=limit + 1)
            shown = rows[:limit]
            record.result = {"total": len(shown)}
            last = TimedRow(shown[-1].changed_at.isoformat(), shown[-1].trace_id) if len(rows) > limit else None
            first = {row.trace_id: first_event(row) for row in shown}
            known = await self._incidents.named([each.analysis for each in first.values()], namespaces=namespaces)
            return TracePage(
                traces=[trace_summary(row, first=first[row.trace_id], incidents=known) for row in shown],
                next_cursor=cursor(last, question=question) if last is not None else "",
                notes=notes,
            )

    async def altered(self, traces: Sequence[TraceSummary]) -> list[str]:
        """Of traces that `page` has just let the caller read, the ids of those whose newest part is not as recorded.

        Raises:
            Unavailable: the database does not answer.
        """
        parts = [
            await self._traces.part(each.trace_id, after=max(0, each.events - PIECE), size=PIECE) for each in traces
        ]
        return [each.trace_id for each, part in zip(traces, parts, strict=True) if not part.replay.passed]

    async def _rows(self, wanted: TraceFilter, *, namespaces: frozenset[str] | None, limit: int) -> list[TraceRow]:
        """Up to `limit` of them; among incidents none of ids that no AIAnalysis ever had, unless one is named."""
        rows: list[TraceRow] = []
        while True:
            found = await self._lister.page(wanted, namespaces=namespaces, limit=limit)
            kept = [row for row in found if not (wanted.of_incidents and not wanted.trace_id and is_unknown(row))]
            rows += kept[: limit - len(rows)]
            if len(rows) == limit or len(found) < limit:
                return rows
            wanted = replace(wanted, before=(found[-1].changed_at, found[-1].trace_id))

    async def story(self, trace_id: str, *, limit: int, after: str = "", caller: Caller) -> TraceAnswer:
        """A page of one trace, by its id or by the remediation id of its incident; `after` is the cursor of the last.

        Raises:
            NotFound: there is none that the caller may read.
            InvalidInput: the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._recorded(trace_id, caller=caller) as record:
            begin = number_of(after, question={"trace": trace_id})
            namespaces = await self._namespaces(trace_id, caller=caller)
            # Other events of the same piece say what an event means: pages are cut from it.
            part = await self._traces.part(trace_id, after=begin - begin % PIECE, size=PIECE)
            last_begins = (part.total - 1) // PIECE * PIECE
            last = part
            if part.after < last_begins:
                last = await self._traces.part(trace_id, after=last_begins, size=PIECE)
            if not (part.verified or last.verified):
                raise _not_found(trace_id)
            if begin > part.total:
                raise InvalidInput("cursor is beyond the end of the trace; leave it out to begin again", field="cursor")
            shown = [event for event in part.events if event.seq > begin][:limit]
            record.result = {"total": len(shown)}
            belongs = [namespace for namespace in namespaces if namespace]
            return trace_answer(trace_id, shown, part=part, last=last, namespaces=belongs)

    async def files(self, trace_id: str, *, caller: Caller) -> TraceFiles:
        """One trace as the files of `formulary trace export`.

        Raises:
            NotFound: there is none that the caller may read.
            InvalidInput: it is too long for one answer.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._recorded(trace_id, caller=caller) as record:
            await self._namespaces(trace_id, caller=caller)
            whole = await self._traces.part(trace_id, after=0, size=EXPORTED)
            if not whole.events:
                raise _not_found(trace_id)
            if whole.total > EXPORTED:
                raise InvalidInput(
                    f"trace {trace_id[:_MAX_SHOWN]!r} has {whole.total} events, and more than {EXPORTED} are not "
                    "exported at once; the owner of the database can, with `formulary trace export --database-url`",
                    field="trace_id",
                )
            record.result = {"total": len(whole.events)}
            return TraceFiles(
                trace_id=trace_id,
                passed=whole.replay.passed,
                files=trace_files(trace_id, whole.events, replay=whole.replay),
            )

    @asynccontextmanager
    async def _recorded(self, trace_id: str, *, caller: Caller) -> AsyncIterator[Record]:
        async with self._trail.record(
            "read.trace", caller=caller, reference=_NO_INCIDENT, arguments={"trace_id": trace_id}
        ) as record:
            yield record

    async def _namespaces(self, trace_id: str, *, caller: Caller) -> list[str]:
        """Those that the trace belongs to, in all of which the caller may read it.

        Raises:
            NotFound: not in all, or no trace can have this id.
        """
        possible = storable(trace_id)
        namespaces = await self._lister.namespaces(trace_id) if possible else []
        # An unknown trace costs a check as well: a check that fails or takes time must not show which ones exist.
        if not (await may_in_all(caller, USE_CONTEXTS, namespaces) and possible):
            raise _not_found(trace_id)
        return namespaces


def _not_found(trace_id: str) -> NotFound:
    return NotFound(
        f"no trace {trace_id[:_MAX_SHOWN]!r} that you may read is recorded; give the remediation id of an incident in "
        f"whose namespace you may {USE_CONTEXTS}; `formulary trace list` shows those that you may read",
        reference=trace_id,
    )
