"""PostgreSQL goes away under load and comes back: quick errors, no wrong answer, recovery without a restart."""

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.errors import NotFound, Unavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.store.database.connection import DEADLINE, Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import ApplyOutcome, CatalogWriter
from support import manifest
from support.filling import entry, fill
from support.services import open_parts
from support.trail import recorded

CALLER = Caller(name="test", access=EVERYTHING)
NOWHERE = ContextReference()
PATIENCE = 2.0
SCHEDULING = 1.5  # what a busy machine may add; less than another PATIENCE
WORKERS = 8


@pytest.fixture
def server(data_dirs: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that these tests may stop."""
    with EmbeddedPostgres(data_dir=data_dirs / f"outage-{uuid.uuid4().hex[:8]}") as started:
        yield started


@pytest.fixture
async def writer(server: EmbeddedPostgres) -> AsyncIterator[CatalogWriter]:
    await asyncio.to_thread(migrate, server.dsn())
    database = await Database.open(server.dsn(), role=Role.WRITER, deadline=10)
    yield CatalogWriter(database)
    await database.close()


@pytest.fixture
async def parts(server: EmbeddedPostgres, writer: CatalogWriter) -> AsyncIterator[CatalogParts]:
    """With a few workflows behind it."""
    await fill(writer, [manifest.workflow(f"restart-{number}") for number in range(5)])
    async with open_parts(server.dsn(), deadline=DEADLINE) as opened:
        yield opened


async def _search(service: CatalogService) -> dict[str, Any]:
    answer = await service.search(search_request(query="OOMKilled restart"), caller=CALLER)
    return answer.model_dump()


class Load:
    """Callers that search without pause; keeps every answer, every error and how long each error took."""

    def __init__(self, service: CatalogService) -> None:
        self._service = service
        self._came = asyncio.Condition()
        self.answers: list[dict[str, Any]] = []
        self.errors: list[tuple[Exception, float]] = []

    async def __aenter__(self) -> "Load":
        self._workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def more(self, what: list[Any], count: int) -> None:
        """Wait until so many more answers or errors have come."""
        wanted = len(what) + count
        async with asyncio.timeout(30), self._came:
            await self._came.wait_for(lambda: len(what) >= wanted)

    async def _work(self) -> None:
        while True:
            started = time.monotonic()
            try:
                self.answers.append(await _search(self._service))
            except Exception as error:
                self.errors.append((error, time.monotonic() - started))
            async with self._came:
                self._came.notify_all()
            await asyncio.sleep(0)  # a connection that is refused at once never waits, so nobody else would run


async def test_a_stopped_database_fails_calls_quickly_and_a_started_one_serves_again(
    server: EmbeddedPostgres, service: CatalogService
) -> None:
    expected = await _search(service)
    async with Load(service) as load:
        for _ in range(2):
            await load.more(load.answers, 50)
            await asyncio.to_thread(server.stop)
            await load.more(load.errors, 50)
            await asyncio.to_thread(server.start)
            await load.more(load.answers, 50)
    assert {type(error) for error, _ in load.errors} == {Unavailable}
    assert max(seconds for _, seconds in load.errors) < PATIENCE + SCHEDULING
    for answer in load.answers:
        assert answer | {"search_id": "", "time_ms": 0} == expected | {"search_id": "", "time_ms": 0}
    owner = await asyncpg.connect(server.dsn())
    searches = {row["search_id"] for row in await recorded(owner) if row["outcome"] == "ok"}
    await owner.close()
    assert {answer["search_id"] for answer in load.answers} <= searches


async def test_one_call_after_a_restart_is_enough(
    server: EmbeddedPostgres, service: CatalogService, writer: CatalogWriter
) -> None:
    await asyncio.gather(*(_search(service) for _ in range(WORKERS)))
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    assert (await _search(service))["total_results"] == 5
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    with pytest.raises(NotFound):
        await service.details("unknown", context=NOWHERE, caller=CALLER)
    assert await writer.served() != []


async def test_a_lost_write_is_reported_and_can_be_repeated(server: EmbeddedPostgres, writer: CatalogWriter) -> None:
    wanted = entry(manifest.workflow("restart"))
    await asyncio.to_thread(server.stop)
    with pytest.raises(Unavailable):
        await writer.apply(wanted)
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(10):
        while True:
            try:
                outcome = await writer.apply(wanted)
            except Unavailable:
                continue
            break
    assert outcome is ApplyOutcome.CREATED


@contextmanager
def _frozen(server: EmbeddedPostgres) -> Iterator[None]:
    """The server exists but does nothing, as on a hung disk or behind a network that drops everything."""
    postmaster = next(
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "postgres" and any("outage" in part for part in process.info["cmdline"])
    )
    processes = [postmaster, *postmaster.children()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


async def test_a_hung_database_fails_calls_within_the_time_a_caller_expects(
    server: EmbeddedPostgres, service: CatalogService, parts: CatalogParts
) -> None:
    await _search(service)
    with _frozen(server):
        started = time.monotonic()
        outcomes = await asyncio.gather(
            _search(service),
            service.details("restart-1", context=NOWHERE, caller=CALLER),
            Listing(parts).page(context=ContextReference(remediation_id="rr-1"), caller=CALLER),
            parts.workflows.counts(),
            return_exceptions=True,
        )
        assert time.monotonic() - started < PATIENCE + SCHEDULING
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    async with asyncio.timeout(10):
        while True:
            try:
                assert (await _search(service))["total_results"] == 5
            except Unavailable:
                continue
            break
