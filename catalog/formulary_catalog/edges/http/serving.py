"""Running the HTTP application in the event loop of the caller until it is stopped."""

import asyncio
import contextlib
import signal
import ssl
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from formulary_catalog.edges.http.middleware import PROBES
from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.listening.server import Server
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ConnectionSettings

GRACE_SECONDS = 10
KEEP_ALIVE_SECONDS = 15  # longer than most clients keep a connection, and than a busy server asks them to wait
BackgroundWork = Callable[[int], Coroutine[Any, Any, None]]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    background: BackgroundWork,
    settings: ConnectionSettings,
    metrics: Metrics,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish the running calls and return; a second SIGINT does not wait.

    `background` runs from when it listens, and is cancelled when it stops. It is given the port that is listened on,
    which differs from `port` if that is 0. Its failure ends the serving and is raised. `tls` may be changed while it
    is used.

    Raises:
        StartupError: the address cannot be listened on.
    """
    limits = ConnectionLimits(settings, server="catalog", metrics=metrics.connections, probes=PROBES)
    server = _Server(_given_up_quietly(app), limits=limits, background=background, tls=tls)
    await server.serve_at(host=host, port=port)
    if server.force_exit:  # uvicorn leaves it out then, and the lifespan would end with a traceback
        await server.lifespan.shutdown()
    await server.settle()


class _Server(Server):
    """The server, with background work once it listens, and stopping without raising the signal again."""

    def __init__(
        self, app: ASGIApp, *, limits: ConnectionLimits, background: BackgroundWork, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(
            app,
            limits=limits,
            keep_alive_seconds=KEEP_ALIVE_SECONDS,
            grace_seconds=GRACE_SECONDS,
            lifespan=True,
            tls=tls,
        )
        self._background = background
        self._working: asyncio.Task[None] | None = None

    def listens(self, port: int) -> None:
        self._working = asyncio.create_task(self._background(port))
        self._working.add_done_callback(self._stop_if_failed)

    async def settle(self) -> None:
        """End the background work, and raise what it failed with."""
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
