"""Traces as the owner of the database reads them, in the form in which a server answers them.

Commands do not ask the server's application in this process for them: it leaves out what people read and what tampering
left of a trace, and it verifies no signatures of checkpoints.
"""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from formulary_catalog.domain.moments import BEGINNING, moment_said
from formulary_catalog.domain.reading import TraceAnswer, TracePage
from formulary_catalog.domain.runs.run import OUTCOMES
from formulary_catalog.edges.cli.audit.source import TrailSource, read_trace
from formulary_catalog.errors import StartupError, Unavailable
from formulary_catalog.operations.arguments.reading import TracesArguments
from formulary_catalog.services.audit.stories import first_event, trace_answer, trace_summary
from formulary_catalog.store.audit.listing import TraceFilter
from formulary_catalog.store.audit.one_trace import TracePart
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import IncidentReader

if TYPE_CHECKING:
    from formulary_catalog.domain.incidents import RequestContext


def owned_traces(trail: TrailSource, asked: TracesArguments, *, limit: int) -> TracePage:
    """The traces that changed last, of those that are asked for; what people read and what was tampered with included.

    Raises:
        InvalidInput: `since` is malformed.
        Unavailable, StartupError: the database cannot be used.
    """
    wanted = TraceFilter(
        since=moment_said(asked.since, now=datetime.now(UTC), name="--since") if asked.since else BEGINNING,
        namespace=asked.namespace,
        trace_id=asked.remediation_id,
        phases=[OUTCOMES[asked.outcome]] if asked.outcome else None,
        of_incidents=asked.of == "incidents",
    )

    async def read() -> TracePage:
        async with trail.dsn() as dsn:
            async with TraceReader.open(dsn) as reader:
                rows = await reader.rows(wanted, limit=limit)
            first = {row.trace_id: first_event(row) for row in rows}
            incidents = await _incidents({each.analysis for each in first.values() if each.analysis}, dsn=dsn)
        found = [trace_summary(row, first=first[row.trace_id], incidents=incidents) for row in rows]
        kept = [each for each in found if not (wanted.of_incidents and not wanted.trace_id and each.is_unknown)]
        return TracePage(traces=kept, next_cursor="")

    return asyncio.run(read())


def owned_trace(trail: TrailSource, trace_id: str) -> TraceAnswer:
    """One trace, all of it, with the signatures of checkpoints verified where their key is known.

    Raises:
        NotFound: there is none.
        Unavailable, StartupError: the database cannot be used.
    """

    async def read(reader: TraceReader) -> TraceAnswer:
        events, replay = await read_trace(reader, trace_id, settings=trail.settings)
        rows = await reader.rows(TraceFilter(since=BEGINNING, trace_id=trace_id), limit=1)
        last = events[-1].seq
        whole = TracePart(after=0, upto=last, total=last, before=None, events=events, began=events[0].at, replay=replay)
        namespaces = [namespace for row in rows for namespace in row.namespaces if namespace]
        return trace_answer(trace_id, events, part=whole, last=whole, namespaces=namespaces)

    return trail.ask(read)


async def _incidents(names: set[str], *, dsn: str) -> "dict[str, RequestContext]":
    """Those that are known. The trail is listed without them where something else than the trail was tampered with."""
    if not names:
        return {}
    with suppress(StartupError, Unavailable):
        async with Database.opened(dsn, role=Role.SERVER, size=1) as database:
            return await IncidentReader(database).named(names, namespaces=None)
    return {}
