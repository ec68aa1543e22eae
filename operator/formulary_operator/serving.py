"""Small HTTP servers of the operator, in the event loop of its work."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.listening.server import Server

_GRACE_SECONDS = 2

# Clients written in Go give up an idle connection after 90 s. If we did so first, a request could get lost.
_KEEP_ALIVE_SECONDS = 120


class _Server(Server):
    """The server, which leaves the signals of the process alone."""

    def __init__(self, app: ASGIApp, *, limits: ConnectionLimits, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            app, limits=limits, keep_alive_seconds=_KEEP_ALIVE_SECONDS, grace_seconds=_GRACE_SECONDS, tls=tls
        )
        self._port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def listens(self, port: int) -> None:
        self._port.set_result(port)

    async def listens_on(self, *, unless: "asyncio.Task[None]") -> int:
        """The port, once it listens. Raises what the serving failed with."""
        unless.add_done_callback(lambda _: self._port.cancel())
        try:
            return await self._port
        except asyncio.CancelledError:
            if unless.done():
                unless.result()
            raise

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(
    app: ASGIApp, *, host: str, port: int, limits: ConnectionLimits, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve while inside; the port listened on.

    Raises:
        StartupError: the address cannot be listened on.
    """
    server = _Server(app, limits=limits, tls=tls)
    serving = asyncio.create_task(server.serve_at(host=host, port=port))
    try:
        yield await server.listens_on(unless=serving)
    finally:
        server.should_exit = True
        await serving
