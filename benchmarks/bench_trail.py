"""What the audit trail costs: one event next to the whole search that it records, and how fast a trail is verified."""

import json
import statistics
import time
from dataclasses import dataclass
from uuid import uuid4

import asyncpg

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.audit.events import TraceEvent, TraceStore
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Database, Role
from support.services import open_parts, service_on

TRACES, EVENTS_EACH = 400, 50
_QUERY = "OOMKilled critical"
_FILL = """
select count(*) from generate_series(1, $1) as trace, generate_series(1, $2) as event,
lateral formulary.append_trace('rr-bench-' || trace || repeat('', event), 'search', $3)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailCosts:
    """Medians in seconds of a search that is recorded and of its event alone; events verified in a second."""

    search: float
    event: float
    verified_each_second: float

    @property
    def share(self) -> float:
        """The part of a search that its event takes."""
        return self.event / self.search


async def measure_trail(dsn: str, *, embedder: Embedder, rounds: int, warm_up: int) -> TrailCosts:
    """Measure on a database that holds the catalog; what is recorded stays there."""
    async with (
        open_parts(dsn, embedder=embedder) as parts,
        Database.opened(dsn, role=Role.SERVER) as database,
    ):
        service, traces = service_on(parts), TraceStore(database)
        searches, events = await _interleaved(service, traces=traces, dsn=dsn, rounds=rounds + warm_up)
    return TrailCosts(
        search=statistics.median(searches[warm_up:]),
        event=statistics.median(events[warm_up:]),
        verified_each_second=await _verify(dsn),
    )


async def _interleaved(
    service: CatalogService, *, traces: TraceStore, dsn: str, rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of searches and of events like theirs, in turns, so that noise hits both alike."""
    caller = Caller(name="bench", access=EVERYTHING)
    request = search_request(query=_QUERY, labels={"environment": ["production"]})
    await service.search(request, caller=caller)
    payload = await _payload(dsn)
    searches, events = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        await service.search(request, caller=caller)
        searches.append(time.perf_counter() - started)
        search_id = uuid4()
        event = TraceEvent(
            trace_id=f"tr_{search_id.hex}", kind="search", caller="bench", payload=payload, search_id=search_id
        )
        started = time.perf_counter()
        await traces.append(event)
        events.append(time.perf_counter() - started)
    return searches, events


async def _payload(dsn: str) -> dict[str, object]:
    """What a real search has recorded."""
    owner = await asyncpg.connect(dsn)
    try:
        body = await owner.fetchval("select body from formulary.trace_event where kind = 'search' limit 1")
    finally:
        await owner.close()
    recorded: dict[str, object] = json.loads(body)["payload"]
    return {name: value for name, value in recorded.items() if name not in ("caller", "search_id")}


async def _verify(dsn: str) -> float:
    """Events in a second, of a trail with twenty thousand more events than before."""
    text = canonical_json({"caller": "bench", **await _payload(dsn)})
    owner = await asyncpg.connect(dsn)
    try:
        await owner.execute("begin")
        await owner.fetchval(_FILL, TRACES, EVENTS_EACH, text)
        await owner.execute("commit")
    finally:
        await owner.close()
    async with TraceReader.open(dsn) as reader:
        started = time.perf_counter()
        replay = await reader.verify()
        seconds = time.perf_counter() - started
    if not replay.passed:
        raise SystemExit(f"the trail is not as it was written: {replay.findings[:3]}")
    return replay.event_count / seconds
