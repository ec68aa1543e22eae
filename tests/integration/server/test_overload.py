"""More calls than a server can work on: some are answered, others told quickly to come back; nothing piles up."""

import asyncio
import re
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from operator import methodcaller

import asyncpg
import httpx2
import psutil
import pytest

from formulary_catalog.edges.http.middleware import PROBES
from formulary_catalog.embedding import Embedder
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import DEADLINE
from support.agent import ERAS, agent, protocol_error, refused
from support.manifest import text, workflow
from support.process import Up, formulary_up, private_directory
from support.services import open_parts
from support.serving import serving
from support.wire import Reply, Wire

CLIENTS = 200
SECONDS = 6
ANSWERED_WITHIN = 5 + 15  # it waits five seconds at most, and is given up after fifteen more
PROBED_WITHIN = 10.0  # scrapers give up later than that
MIN_ANSWERED = 10 * SECONDS  # twenty times fewer than one core does
GIVEN_UP_SHARE = 0.1  # a standstill of the machine costs the eight calls in work
MIN_PROBES = SECONDS
REFUSED_WITHIN = 4.0  # 0.2 s, and what clients, server and database on one slow machine add; who waits takes 5 s
MAX_GROWTH_BYTES = 32 * 1024**2
MAX_THREADS = 16
SINGLE_CALLS = 40
LONGEST_HINT = 4  # seconds
SEARCH = "search_workflow_catalog"


@pytest.fixture(scope="module")
def server() -> Iterator[Up]:
    with private_directory() as directory:
        manifests = directory / "manifests"
        manifests.mkdir()
        (manifests / "workflows.yaml").write_text(text(*(workflow(f"oom-{number}") for number in range(30))))
        with formulary_up(data_dir=directory / "data", manifests=[manifests]) as up:
            yield up


class Flood:
    """Searches from many clients, and what else is asked of the server meanwhile."""

    def __init__(self, url: str, *, seconds: float) -> None:
        self._url = url
        self._until = time.monotonic() + seconds
        self.answered: list[float] = []
        self.refused: list[float] = []
        self.given_up = 0
        self.others: dict[str, list[Reply]] = defaultdict(list)

    async def search(self, *, heeds_the_hint: bool) -> None:
        async with Wire(self._url) as wire:
            while time.monotonic() < self._until:
                reply = await _search(wire, len(self.answered))
                if not reply.json()["result"].get("isError"):
                    self.answered.append(reply.seconds)
                    continue
                told = reply.json()["result"]["content"][0]["text"]
                if "the database does not answer" in told:
                    self.given_up += 1
                    continue
                assert "the server is busy" in told
                self.refused.append(reply.seconds)
                if heeds_the_hint:
                    await asyncio.sleep(int(reply.headers["retry-after"]))

    async def ask(self, what: str, request: Callable[[Wire], Awaitable[Reply]]) -> None:
        async with Wire(self._url) as wire:
            while time.monotonic() < self._until:
                self.others[what].append(await request(wire))
                await asyncio.sleep(0.1)  # as often as this; nothing is waited for


async def _search(wire: Wire, number: int) -> Reply:
    reply = await wire.tool(SEARCH, {"query": f"OOMKilled critical attempt {number % 7}"})
    assert reply.status == 200
    return reply


async def _single_search_seconds(url: str) -> float:
    """The median of searches that come one after the other."""
    async with Wire(url) as wire:
        return statistics.median([(await _search(wire, number)).seconds for number in range(SINGLE_CALLS)])


async def test_a_flood_is_answered_in_part_refused_in_part_and_leaves_no_trace(server: Up) -> None:
    process = psutil.Process(server.process.pid)
    before = await _single_search_seconds(server.url)
    memory = process.memory_info().rss
    flood = Flood(server.url, seconds=SECONDS)

    await asyncio.gather(
        *(flood.search(heeds_the_hint=number % 4 != 0) for number in range(CLIENTS)),
        *(flood.ask(path, methodcaller("get", path)) for path in PROBES),
        *(flood.ask(method, methodcaller("rpc", method, {})) for method in ("tools/list", "server/discover")),
    )

    assert len(flood.answered) > MIN_ANSWERED
    assert max(flood.answered) < ANSWERED_WITHIN
    assert flood.given_up < len(flood.answered) * GIVEN_UP_SHARE
    assert len(flood.refused) > CLIENTS / 4
    assert statistics.quantiles(flood.refused, n=20)[-1] < REFUSED_WITHIN
    assert flood.others.keys() == {*PROBES, "tools/list", "server/discover"}
    assert {reply.status for replies in flood.others.values() for reply in replies} == {200}
    for path in PROBES:
        assert len(flood.others[path]) > MIN_PROBES
        assert max(reply.seconds for reply in flood.others[path]) < PROBED_WITHIN
    assert b'formulary_calls_in_work{lane="catalog"} 8.0' in flood.others["/metrics"][-1].body
    assert process.num_threads() < MAX_THREADS
    assert process.memory_info().rss - memory < MAX_GROWTH_BYTES
    async with Wire(server.url) as wire:
        idle = {b'formulary_calls_in_work{lane="catalog"} 0.0', b'formulary_calls_waiting{lane="catalog"} 0.0'}
        while not idle <= set((await wire.get("/metrics")).body.splitlines()):  # bounded by the test's own time limit
            pass
    assert await _single_search_seconds(server.url) < 10 * before + 0.1


async def test_whoever_comes_back_when_told_finds_the_connection_still_open(server: Up) -> None:
    async with Wire(server.url) as wire:
        await wire.get("/healthz")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.hung_up(), LONGEST_HINT + 3)
        assert (await wire.get("/healthz")).status == 200


@asynccontextmanager
async def _stuck(dsn: str) -> AsyncIterator[None]:
    """Nothing can be written into the trail, so that every call takes all the time that it has."""
    holder = await asyncpg.connect(dsn)
    try:
        async with holder.transaction():
            await holder.execute("lock table formulary.trace_event in access exclusive mode")
            yield
    finally:
        await holder.close()


@asynccontextmanager
async def _busy_server(dsn: str, *, embedder: Embedder) -> AsyncIterator[str]:
    """A server without a place to wait, whose slots are all taken."""
    settings = Settings(calls_waiting=0)
    async with (
        open_parts(dsn, embedder=embedder, deadline=DEADLINE, calls_waiting=0) as parts,
        serving(parts, calls_waiting=0) as url,
        _stuck(dsn),
        httpx2.AsyncClient(base_url=url) as http,
    ):

        async def occupy() -> None:
            while True:
                await http.get("/api/v1/workflows", timeout=30)

        occupying = [asyncio.create_task(occupy()) for _ in range(3 * settings.calls_at_once)]
        async with asyncio.timeout(30):
            while b'formulary_calls_in_work{lane="catalog"} 8.0' not in (await http.get("/metrics")).content:
                pass
        try:
            yield url
        finally:
            for task in occupying:
                task.cancel()
            await asyncio.gather(*occupying, return_exceptions=True)


@pytest.fixture
async def busy(database: str, embedder: Embedder) -> AsyncIterator[str]:
    async with _busy_server(database, embedder=embedder) as url:
        yield url


@pytest.mark.parametrize("mode", ERAS)
async def test_a_model_is_told_when_to_come_back(busy: str, mode: str) -> None:
    async with agent(busy, mode=mode) as client:
        assert (await client.list_tools()).tools
        async with asyncio.timeout(30):
            while "the server is busy" not in (told := refused(await client.call_tool(SEARCH, {"query": "OOMKilled"}))):
                assert "does not answer" in told  # it got the slot of a call that was just given up

    hint = re.search(r"retry in (\d(?:\.\d)?) seconds, the call was not begun$", told)
    assert hint is not None
    assert 1 <= float(hint[1]) <= 4


@pytest.mark.parametrize("mode", ERAS)
async def test_whoever_reads_a_resource_is_told_when_to_come_back(busy: str, mode: str) -> None:
    async with asyncio.timeout(30):
        while True:
            error = await protocol_error(
                busy, lambda client: client.read_resource("workflow://formulary/restart"), mode=mode
            )
            if "the server is busy" in error.message:
                break
    assert error.code == -32003
    assert error.data["retry"] is True
    assert 1 <= error.data["retry_after_seconds"] <= 4


async def test_a_program_is_told_when_to_come_back(busy: str) -> None:
    async with httpx2.AsyncClient(base_url=busy, timeout=30) as http, asyncio.timeout(30):
        while True:
            reply = await http.post("/api/v1/workflows/search", json={"query": "OOMKilled"})
            if "the server is busy" in reply.text:
                break
    assert reply.status_code == 503
    assert 1 <= int(reply.headers["retry-after"]) <= 4
    assert reply.json()["error"]["code"] == -32003


async def test_calls_about_runs_are_answered_while_searches_are_refused(busy: str) -> None:
    async with httpx2.AsyncClient(base_url=busy, timeout=30) as http:
        reply = await http.get("/api/v1/invocations/inv-0123456789abcdef0123")
    assert reply.status_code == 404
