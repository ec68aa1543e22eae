"""An attacker without a token who sends heads without end, or holds connections open for nothing."""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import psutil
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from formulary_operator.admission.certificates import ServingCertificate, directory
from formulary_operator.admission.issuing import issue
from formulary_operator.serving import served
from support.connection_limits import connection_limits
from support.operator_process import Daemon, server
from support.waiting import wait_until

HEAD = b"GET /api/v1/workflows HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
MEGABYTE = 1024**2
FLOOD = 48 * MEGABYTE


@pytest.fixture(scope="module")
def small(dsn: str) -> Iterator[Daemon]:
    """A server with few places and little patience."""
    with server(dsn=dsn, max_connections="64", max_connections_per_address="32", request_seconds="3") as daemon:
        daemon.start().wait_ready()
        yield daemon


def connect(daemon: Daemon, *, address: str = "127.0.0.1") -> socket.socket:
    """A connection from an address of loopback."""
    port = httpx2.URL(daemon.url).port
    return socket.create_connection(("127.0.0.1", port or 0), timeout=20, source_address=(address, 0))


def answered(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    parts = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts += part
    return parts


def flooded(daemon: Daemon, *, first: bytes, then: bytes) -> int:
    """How many bytes the server took before it closed the connection, of a flood that has an end."""
    block, sent = then * (MEGABYTE // len(then)), 0
    with connect(daemon) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(first)
        while sent < FLOOD:
            connection.sendall(block)
            sent += len(block)
    return sent


def memory(daemon: Daemon) -> int:
    assert daemon.process is not None
    return psutil.Process(daemon.process.pid).memory_info().rss


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(HEAD, b"a: b\r\n", id="headers"),
        pytest.param(HEAD + b"a: ", b"b" * 1024, id="one header"),
        pytest.param(b"GET /", b"a" * 1024, id="a path"),
        pytest.param(b"", b"\r\n", id="blank lines"),
        pytest.param(CHUNKED, b"a: b\r\n", id="trailers"),
        pytest.param(CHUNKED + b"a: ", b"b" * 1024, id="one trailer"),
        pytest.param(CHUNKED.removesuffix(b"0\r\n"), b"1;a=" + b"b" * 1020, id="an extension of a chunk"),
        pytest.param(b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", id="requests at once"),
    ],
)
def test_what_has_no_end_is_cut_off(small: Daemon, first: bytes, then: bytes) -> None:
    before = memory(small)

    assert flooded(small, first=first, then=then) < FLOOD
    assert memory(small) - before < 24 * MEGABYTE
    assert httpx2.get(f"{small.url}/healthz").status_code == 200


@pytest.mark.parametrize("head", [HEAD + b"a: b\r\n" * 200, HEAD + b"a: " + b"b" * 40_000 + b"\r\n"])
def test_a_head_over_the_limits_is_refused_in_one_line(small: Daemon, head: bytes) -> None:
    with connect(small) as connection:
        connection.sendall(head + b"\r\n")
        status, _, body = answered(connection).partition(b"\r\n\r\n")

    assert status.startswith(b"HTTP/1.1 431 ")
    assert body.startswith(b'{"error":{"code":-32002,"message":"the ')
    assert small.metric("formulary_connections_refused_total", server="catalog", reason="headers") > 0


def test_trailers_do_not_count_as_headers(small: Daemon) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    asked = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nOrigin: https://evil.example\r\n\r\n"
    )
    with connect(small) as connection:
        connection.sendall(asked % (len(body), body))
        assert answered(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HEAD, id="half a head"),
        pytest.param(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", id="half a body"),
    ],
)
def test_a_request_that_does_not_arrive_is_not_waited_for(small: Daemon, beginning: bytes) -> None:
    with connect(small) as connection:
        connection.sendall(beginning)
        answer = answered(connection)  # Raises TimeoutError if the server keeps the connection.

    assert answer[:13] in (b"", b"HTTP/1.1 408 ")


def test_an_address_that_holds_connections_open_keeps_nobody_out(small: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(small, address="127.0.0.2")) for _ in range(100)]
        for connection in held:
            with contextlib.suppress(ConnectionError):
                connection.sendall(HEAD)

        assert httpx2.get(f"{small.url}/api/v1/workflows").status_code == 200
        assert small.metric("formulary_connections", server="catalog") <= 33
        assert small.metric("formulary_connections_refused_total", server="catalog", reason="address") >= 60


def test_many_addresses_that_hold_connections_open_keep_nobody_out(small: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(2, 8):
            for _ in range(30):
                stack.enter_context(connect(small, address=f"127.0.0.{number}"))

        assert httpx2.get(f"{small.url}/api/v1/workflows").status_code == 200
        assert httpx2.get(f"{small.url}/readyz").status_code == 200
        assert small.metric("formulary_connections", server="catalog") <= 64


def test_what_strangers_send_does_not_fill_the_log(small: Daemon) -> None:
    before = len(small.output())
    for _ in range(200):
        with connect(small) as connection:
            connection.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            answered(connection)

    assert len(small.output()) - before < 4096


def _is_alive(daemon: Daemon) -> bool:
    try:
        return httpx2.get(f"{daemon.url}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.parametrize("lowered_later", [False, True])
def test_a_server_without_files_answers_probes_and_writes_no_flood_of_logs(dsn: str, lowered_later: bool) -> None:
    with server(dsn=dsn, max_connections="1000", max_connections_per_address="1000", request_seconds="3") as daemon:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            if not lowered_later:
                resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
            daemon.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        daemon.wait_ready()
        assert daemon.process is not None
        if lowered_later:  # as if something else in the process had taken them
            psutil.Process(daemon.process.pid).rlimit(psutil.RLIMIT_NOFILE, (128, 256))
        with contextlib.ExitStack() as stack:
            for number in range(400):
                stack.enter_context(connect(daemon, address=f"127.0.0.{2 + number % 3}"))

            # Any one connection may be turned away until those of the flood are given up.
            wait_until(daemon.is_ready, what="an answer to a probe", seconds=20)
            wait_until(lambda: _is_alive(daemon), what="an answer to the other probe", seconds=20)
        assert len(daemon.output()) < 64 * 1024
        assert daemon.crashes() == []


async def test_clients_of_the_webhook_that_never_begin_tls_keep_nobody_out(tmp_path: Path) -> None:
    context, trusting = await _tls(tmp_path)
    few = connection_limits(max_connections=32, max_connections_per_address=8)
    async with served(Starlette(), host="127.0.0.1", port=0, limits=few, tls=context) as port:
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            async with httpx2.AsyncClient(verify=trusting) as http:
                assert (await http.get(f"https://localhost:{port}/nothing")).status_code == 404


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_probes_are_answered_while_every_connection_is_worked_on(tmp_path: Path, scheme: str) -> None:
    context, trusting = await _tls(tmp_path)
    everywhere, enough = asyncio.Barrier(9), asyncio.Event()

    async def wait(_: Request) -> Response:
        await everywhere.wait()
        await enough.wait()
        return PlainTextResponse("done")

    async def ok(_: Request) -> Response:
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/wait", wait), Route("/healthz", ok), Route("/other", ok)])
    few = connection_limits(max_connections=32, max_connections_per_address=8, probes=frozenset({"/healthz"}))
    tls = context if scheme == "https" else None
    async with (
        served(app, host="127.0.0.1", port=0, limits=few, tls=tls) as port,
        httpx2.AsyncClient(base_url=f"{scheme}://localhost:{port}", verify=trusting, timeout=20) as http,
    ):
        working = [asyncio.create_task(http.get("/wait")) for _ in range(8)]
        async with asyncio.timeout(20):
            await everywhere.wait()
        other = await http.get("/other")
        for _ in range(20):
            async with httpx2.AsyncClient(base_url=http.base_url, verify=trusting, timeout=20) as kubelet:
                assert (await kubelet.get("/healthz")).text == "ok"
        enough.set()
        answers = [await each for each in working]

    assert (other.status_code, other.headers["Retry-After"]) == (503, "1")
    assert [answer.text for answer in answers] == ["done"] * 8


async def _tls(directory_of_pair: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server of `localhost` needs, and what its clients trust."""
    pair = issue(["localhost"], now=datetime.now(UTC))
    (directory_of_pair / "tls.crt").write_bytes(pair.certificate)
    (directory_of_pair / "tls.key").write_bytes(pair.key)
    certificate = ServingCertificate(directory(directory_of_pair))
    await certificate.load()
    return certificate.context, ssl.create_default_context(cadata=pair.authority.decode())
