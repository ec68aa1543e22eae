"""Running the HTTP application in the event loop of the caller until it is told to stop."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from formulary_catalog.errors import StartupError

GRACE_SECONDS = 10
KEEP_ALIVE_SECONDS = 15  # longer than most clients keep a connection, and than a busy server tells them to wait
Beside = Callable[[int], Coroutine[Any, Any, None]]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(app: ASGIApp, *, host: str, port: int, beside: Beside) -> None:
    """Serve until SIGTERM or SIGINT, then finish the running calls and return; a second SIGINT does not wait.

    `beside` runs from when it listens, and is cancelled when it stops. It is given the port that is listened on, which
    differs from `port` if that is 0. Its failure ends the serving and is raised.

    Raises:
        StartupError: the address cannot be listened on.
    """
    listening = _listen(host=host, port=port)
    config = uvicorn.Config(
        _given_up_quietly(app),
        http="httptools",
        access_log=False,
        log_config=None,
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    server = _Server(config, beside=lambda: beside(listening.getsockname()[1]))
    with contextlib.closing(listening):
        await server.serve(sockets=[listening])
    if server.force_exit:  # uvicorn leaves it out then, and the lifespan would end with a traceback
        await server.lifespan.shutdown()
    await server.settle()


class _Server(uvicorn.Server):
    """uvicorn, with work beside it once it listens, and stopping without raising the signal again."""

    def __init__(self, config: uvicorn.Config, *, beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(config)
        self._beside = beside
        self._working: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._working = asyncio.create_task(self._beside())
        self._working.add_done_callback(self._stop_if_failed)

    async def settle(self) -> None:
        """End the work beside, and raise what it failed with."""
        if self._working is None:
            return
        self._working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._working

    def _stop_if_failed(self, working: asyncio.Task[None]) -> None:
        if not working.cancelled() and working.exception() is not None:
            self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _given_up_quietly(app: ASGIApp) -> ASGIApp:
    """The application, whose calls may be cancelled by an end that does not wait: uvicorn logs a traceback of each."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise

    return called


def _listen(*, host: str, port: int) -> socket.socket:
    """A bound socket; uvicorn's own way ends the whole process when it cannot bind."""
    try:
        # The protocol has to be named: asyncio turns off Nagle's algorithm only where it reads TCP, and with it on,
        # each small answer waits 40 ms for the client's acknowledgement.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as undo:
            listening = undo.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            undo.pop_all()
    except OSError as error:
        raise StartupError(
            f"cannot listen on port {port} of {host}: {error.strerror}; choose another with --port or --host"
        ) from error
    return listening
