"""Starting and stopping the HTTP server in the event loop of its caller (DESIGN sections 11 and 12)."""

import asyncio
import os
import signal
import socket
import statistics
import time

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from formulary_catalog.edges.http.serving import GRACE_SECONDS, BackgroundWork
from formulary_catalog.edges.http.serving import serve as serve_within
from formulary_catalog.errors import StartupError
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import Settings


class Slow:
    """An application whose one call ends when it is told to."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.app = Starlette(routes=[Route("/", self._call)])

    async def _call(self, _: Request) -> PlainTextResponse:
        self.entered.set()
        await self.release.wait()
        return PlainTextResponse("done")


async def serve(app: ASGIApp, *, host: str, port: int, background: BackgroundWork) -> None:
    await serve_within(app, host=host, port=port, background=background, settings=Settings(), metrics=Metrics())


async def started(slow: Slow) -> tuple[asyncio.Task[None], int]:
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def tell(port: int) -> None:
        ready.set_result(port)

    running = asyncio.create_task(serve(slow.app, host="127.0.0.1", port=0, background=tell))
    async with asyncio.timeout(10):
        return running, await ready


async def nothing(port: int) -> None:
    """No work background the serving."""


async def test_work_beside_that_fails_ends_the_serving_with_its_error() -> None:
    async def failing(port: int) -> None:
        async with httpx2.AsyncClient() as http:
            assert (await http.get(f"http://127.0.0.1:{port}/nothing")).status_code == 404
        raise StartupError("no catalog to be had")

    with pytest.raises(StartupError, match="no catalog to be had"):
        await asyncio.wait_for(serve(Slow().app, host="127.0.0.1", port=0, background=failing), timeout=10)


async def test_work_beside_ends_with_the_serving() -> None:
    ended = asyncio.Event()

    async def endless(port: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await asyncio.wait_for(serve(Slow().app, host="127.0.0.1", port=0, background=endless), timeout=10)

    assert ended.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_server_after_the_running_calls(number: signal.Signals) -> None:
    slow = Slow()
    running, port = await started(slow)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        call = asyncio.create_task(http.get("/"))
        await slow.entered.wait()

        os.kill(os.getpid(), number)
        await _closed(port)
        assert not call.done()
        slow.release.set()

        assert (await call).text == "done"
    await asyncio.wait_for(running, timeout=30)


async def test_a_second_interrupt_does_not_wait_for_calls() -> None:
    slow = Slow()
    running, port = await started(slow)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        call = asyncio.create_task(http.get("/"))
        await slow.entered.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await _closed(port)

        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(running, timeout=0.8 * GRACE_SECONDS)

        slow.release.set()
        await asyncio.wait([call])
        call.exception()


async def test_small_answers_are_not_held_back_until_they_are_acknowledged() -> None:
    quick = Slow()
    quick.release.set()
    running, port = await started(quick)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        taken = []
        for _ in range(50):
            begun = time.perf_counter()
            await http.get("/")
            taken.append(time.perf_counter() - begun)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, timeout=30)

    assert statistics.median(taken) < 0.035


async def test_a_port_in_use_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartupError, match=f"cannot listen on port {port} of 127.0.0.1: .*choose another"):
            await serve(Slow().app, host="127.0.0.1", port=port, background=nothing)


async def test_a_host_that_is_none_is_said_in_one_line() -> None:
    with pytest.raises(StartupError, match=r"cannot listen on port 0 of no\.such\.host\.invalid"):
        await serve(Slow().app, host="no.such.host.invalid", port=0, background=nothing)


async def _closed(port: int) -> None:
    """Return once nothing listens on the port any more."""
    for _ in range(500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        await asyncio.sleep(0.01)
    pytest.fail(f"port {port} is still listened on")
