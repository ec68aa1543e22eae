"""What is refused before anything looks at a request, and what health checks see (DESIGN sections 8 and 12)."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from formulary_catalog.edges.app import create_app
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.http import health, middleware
from formulary_catalog.edges.http.concurrency import Admission
from formulary_catalog.edges.http.middleware import MAX_BODY_BYTES, PROBES, Edge, HostRule
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import Settings
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import KnownCallers, Rights
from support.agent import agent, refused
from support.metrics import served
from support.serving import catalog, listening, serving

LOOPBACK = HostRule(allowed=(), listening_on="127.0.0.1")


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres) -> AsyncIterator[CatalogParts]:
    async with catalog([], postgres=postgres, embedder=None) as empty:
        yield empty


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts, allowed_hosts="formulary.tools.svc, catalog.example") as at:
        yield at


async def status(url: str, *, host: str = "localhost", path: str = "/api/v1/workflows") -> int:
    async with httpx2.AsyncClient() as http:
        return (await http.get(url + path, headers={"Host": host})).status_code


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "formulary.tools.svc:8080", "catalog.example"]
)
async def test_loopback_and_allowed_names_are_served(url: str, host: str) -> None:
    assert await status(url, host=host) == 200


@pytest.mark.parametrize(
    "host", ["formulary", "10.0.0.7:8080", "catalog.example.evil", "evil@localhost", "localhost:x", "[::1", "a b"]
)
async def test_any_other_name_is_misdirected(url: str, host: str) -> None:
    assert await status(url, host=host) == 421


@pytest.mark.parametrize("path", ["/api/v1/workflows", "/healthz"])
async def test_two_hosts_are_refused(url: str, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"

    assert b" 400 " in (await _raw(url, head.encode())).splitlines()[0]


@pytest.mark.parametrize("path", sorted(PROBES))
async def test_probes_and_scrapes_come_by_pod_address(url: str, path: str) -> None:
    assert await status(url, host="10.0.0.7:8080", path=path) == 200


def test_the_address_listened_on_is_a_name_unless_it_is_every_address() -> None:
    assert HostRule(allowed=(), listening_on="192.168.1.5").allows_host("192.168.1.5:8080")
    assert not HostRule(allowed=(), listening_on="0.0.0.0").allows_host("0.0.0.0:8080")
    assert not HostRule(allowed=(), listening_on="::").allows_host("[::]:8080")


@pytest.mark.parametrize("path", ["/api/v1/workflows/search", "/api/v1/selections", "/nothing"])
async def test_a_body_over_the_limit_is_refused_on_every_path(url: str, path: str) -> None:
    async with httpx2.AsyncClient(base_url=url, headers={"Content-Type": "application/json"}) as http:
        over = await http.post(path, content=b"x" * (MAX_BODY_BYTES + 1))
        within = await http.post(path, content=b"x" * MAX_BODY_BYTES)

    assert (over.status_code, over.json()["error"]["code"]) == (413, -32002)
    assert within.status_code in {400, 404}


async def test_values_of_headers_lose_the_blanks_around_them() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(repr(dict(scope["headers"])[b"x-padded"]))(scope, receive, send)

    admission = Admission(Settings(), metrics=Metrics())
    async with listening(_with_lifespan(Edge(echo, hosts=LOOPBACK, admission=admission))) as url:
        answered = await _raw(
            url, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Padded: \t value \t\r\nConnection: close\r\n\r\n"
        )

    assert answered.endswith(b"b'value'")


async def test_a_call_whose_client_left_while_it_waited_is_not_begun() -> None:
    begun, release = asyncio.Queue[str](), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.put_nowait(scope["path"])
        await release.wait()
        await PlainTextResponse("done")(scope, receive, send)

    metrics = Metrics()
    admission = Admission(Settings(call_wait_seconds=60), metrics=metrics)
    busy = [f"/api/v1/workflows/{number}" for number in range(Settings().calls_at_once)]
    async with listening(_with_lifespan(Edge(slow, hosts=LOOPBACK, admission=admission))) as url:
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            running = [asyncio.create_task(http.get(path)) for path in busy]
            assert {await begun.get() for _ in busy} == {*busy}
            left = asyncio.create_task(http.get("/api/v1/workflows/left"))
            await _until_waiting(metrics, 1, beside=left)
            left.cancel()
            waiting = asyncio.create_task(http.get("/api/v1/workflows/stayed"))
            await _until_waiting(metrics, 2, beside=waiting)
            release.set()
            answered = await asyncio.gather(*running, waiting)

    assert {response.status_code for response in answered} == {200}
    assert [begun.get_nowait() for _ in range(begun.qsize())] == ["/api/v1/workflows/stayed"]


async def _until_waiting(metrics: Metrics, number: int, *, beside: "asyncio.Task[httpx2.Response]") -> None:
    """Wait until so many calls wait for a slot."""
    async with asyncio.timeout(60):
        while f'formulary_calls_waiting{{lane="catalog"}} {number}.0'.encode() not in metrics.exposition():
            await asyncio.wait([beside], timeout=0.01)


async def test_a_caller_that_fills_the_server_gives_way_to_another() -> None:
    begun, ends = asyncio.Queue[str](), asyncio.Semaphore(0)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.put_nowait(scope["path"])
        await ends.acquire()
        await PlainTextResponse("done")(scope, receive, send)

    metrics, settings = Metrics(), Settings(calls_waiting=4, call_wait_seconds=60)
    admission = Admission(settings, metrics=metrics)
    callers = KnownCallers(greedy=Rights(), modest=Rights())
    many = settings.calls_at_once + settings.calls_waiting
    app = _with_lifespan(Edge(slow, hosts=LOOPBACK, admission=admission, authenticator=callers))
    async with listening(app) as url, httpx2.AsyncClient(base_url=url, timeout=30) as http:

        def call(caller: str) -> "asyncio.Task[httpx2.Response]":
            authorization = {"Authorization": f"Bearer {caller}"}
            return asyncio.create_task(http.get(f"/api/v1/workflows/{caller}", headers=authorization))

        greedy = [call("greedy") for _ in range(many)]
        await _until_waiting(metrics, 4, beside=greedy[0])
        modest = call("modest")
        refused, _ = await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(settings.calls_at_once):
            await begun.get()
        ends.release()
        assert await asyncio.wait_for(begun.get(), timeout=60) == "/api/v1/workflows/modest"
        for _ in range(many):
            ends.release()
        answered = await asyncio.gather(modest, *greedy)

    assert [call.result().status_code for call in refused] == [503]
    assert sorted(response.status_code for response in answered) == [200] * many + [503]


async def test_any_number_of_probes_asks_the_database_once_at_a_time(
    parts: CatalogParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, most = 0, 0
    database = parts.database
    check = database.ping

    async def counted() -> None:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await check()
        asked -= 1

    monkeypatch.setattr(database, "ping", counted)
    async with serving(parts) as url, httpx2.AsyncClient(base_url=url) as http:
        ready = await asyncio.gather(*(http.get("/readyz") for _ in range(40)))

    assert {response.status_code for response in ready} == {200}
    assert most == 1


async def test_any_number_of_scrapes_counts_the_catalog_once(
    parts: CatalogParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    workflows = parts.workflows
    count = workflows.counts

    async def counted() -> dict[str, int]:
        nonlocal asked
        asked += 1
        return await count() | {"Active": asked}

    monkeypatch.setattr(workflows, "counts", counted)
    async with serving(parts) as url, httpx2.AsyncClient(base_url=url) as http:
        scraped = await asyncio.gather(*(http.get("/metrics") for _ in range(40)))
        again = await http.get("/metrics")
        monkeypatch.setattr(health, "_COUNTED_FOR_SECONDS", -1.0)
        later = await http.get("/metrics")

    assert all('formulary_catalog_workflows{status="Active"} 1.0' in response.text for response in (*scraped, again))
    assert 'formulary_catalog_workflows{status="Active"} 2.0' in later.text


async def test_a_body_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(middleware, "_BODY_SECONDS", 0.05)
    head = (
        b"POST /api/v1/workflows/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 10\r\n\r\n{"
    )

    assert b" 408 " in await _raw(url, head)
    late = await _raw(url, head.replace(b"/api/v1/workflows/search", b"/mcp"))
    assert b'"data":{"retry":true}' in late


async def test_health_is_about_the_process_alone(postgres: EmbeddedPostgres) -> None:
    async with catalog([], postgres=postgres, embedder=None) as parts, serving(parts) as url:
        await parts.database.close()
        assert await status(url, path="/healthz") == 200
        assert await status(url, path="/readyz") == 503
        assert await status(url, path="/metrics") == 200


async def test_readiness_tells_starting_degraded_ready_and_broken_apart(
    postgres: EmbeddedPostgres, embedder: Embedder
) -> None:
    readiness = Readiness(catalog_loaded=False)
    async with catalog([], postgres=postgres, embedder=None) as parts:
        app = create_app(parts, settings=Settings(), readiness=readiness)
        async with listening(app) as url, httpx2.AsyncClient(base_url=url) as http:
            starting = await http.get("/readyz")
            readiness.catalog_loaded = True
            degraded = await http.get("/readyz")
            parts.vectors.use(embedder)
            ready = await http.get("/readyz")
            await parts.database.close()
            broken = await http.get("/readyz")

    seen = [(response.status_code, response.json()["status"]) for response in (starting, degraded, ready, broken)]
    assert seen == [(503, "starting"), (200, "degraded"), (200, "ready"), (503, "broken")]
    assert degraded.json() == {
        "status": "degraded",
        "database": "ok",
        "catalog": "loaded",
        "model": "unavailable",
        "mode": "lexical",
    }
    assert (ready.json()["mode"], ready.json()["model"]) == ("hybrid", embedder.model_id)


async def test_while_the_catalog_loads_calls_are_told_to_come_back(parts: CatalogParts) -> None:
    readiness = Readiness(catalog_loaded=False)
    app = create_app(parts, settings=Settings(), readiness=readiness)
    async with listening(app) as url, httpx2.AsyncClient(base_url=url) as http:
        read = [await http.get("/api/v1/workflows"), await http.post("/api/v1/workflows/search", json={"query": "x"})]
        async with agent(url) as client:
            assert (await client.list_tools()).tools
            told = refused(await client.call_tool("search_workflow_catalog", {"query": "x"}))
        others = [await http.get(path) for path in ("/healthz", "/metrics")]
        readiness.catalog_loaded = True
        loaded = await http.get("/api/v1/workflows")

    assert [response.status_code for response in read] == [503, 503]
    assert "still loading; retry in a few seconds" in read[0].json()["error"]["message"]
    assert "still loading; retry in a few seconds" in told
    assert [response.status_code for response in (*others, loaded)] == [200, 200, 200]


async def test_metrics_are_scraped_as_prometheus_text(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        response = await http.get("/metrics")

    assert response.headers["content-type"].startswith("text/plain; version=")
    assert served(response.text) == served(Metrics().exposition().decode())


async def _raw(url: str, request: bytes) -> bytes:
    """What a server says to these bytes until it closes the connection."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answered = await asyncio.wait_for(reader.read(), timeout=10)
    writer.close()
    await writer.wait_closed()
    return answered


def _with_lifespan(app: Edge) -> "_Lifespan":
    return _Lifespan(app)


class _Lifespan:
    """Answers the lifespan events that a bare application under test does not."""

    def __init__(self, app: Edge) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
