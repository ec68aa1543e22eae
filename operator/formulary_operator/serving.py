"""Small HTTP servers of the operator, in the event loop of its work.

One answers what kubelets and scrapers ask: health, readiness and metrics (DESIGN section 12).
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from enum import StrEnum

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from formulary_catalog.errors import FormularyError
from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.listening.server import Server
from formulary_catalog.store.database.connection import Database
from formulary_operator.metrics import OperatorMetrics

_GRACE_SECONDS = 2

# Clients written in Go give up an idle connection after 90 s. If we did so first, a request could get lost.
_KEEP_ALIVE_SECONDS = 120
_DATABASE_SECONDS = 2.0
"""Kubelets wait three seconds for an answer."""


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


class StartPhase(StrEnum):
    """What the operator is doing. In `standby` another replica leads, and this one is ready to take over."""

    STARTING = "starting"
    STANDBY = "standby"
    SYNCING = "syncing"
    READY = "ready"

    @property
    def is_ready(self) -> bool:
        return self in (StartPhase.STANDBY, StartPhase.READY)


class OperatorHealth:
    """The state that the probes report. `database` is the one that is asked once it has been opened."""

    PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

    def __init__(self, metrics: OperatorMetrics) -> None:
        self.phase = StartPhase.STARTING
        self.detail = ""
        self.alive: Callable[[], Awaitable[bool]] | None = None
        self.database: Database | None = None
        self._asking: asyncio.Task[str] | None = None
        self._metrics = metrics

    def application(self) -> Starlette:
        """The probes as an application."""
        routes = [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._exposition),
        ]
        return Starlette(routes=routes)

    async def _healthz(self, _: Request) -> Response:
        """Whether this process turns, and the watch with it; the database is not looked at."""
        if self.alive is not None and not await self.alive():
            return JSONResponse({"status": "the watch hangs"}, status_code=500)
        return JSONResponse({"status": "ok"})

    async def _readyz(self, _: Request) -> Response:
        problem = await self._database_problem()
        if problem:
            return JSONResponse({"status": "unavailable", "detail": problem}, status_code=503)
        report = {"status": self.phase, "detail": self.detail}
        return JSONResponse(report, status_code=200 if self.phase.is_ready else 503)

    async def _database_problem(self) -> str:
        """Why the database cannot be used; empty where it can. Asked once for all probes that come meanwhile."""
        if self.database is None:
            return ""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(_problem_of(self.database))
        return await asyncio.shield(self._asking)

    async def _exposition(self, _: Request) -> Response:
        return Response(self._metrics.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _problem_of(database: Database) -> str:
    try:
        async with asyncio.timeout(_DATABASE_SECONDS):
            await database.ping()
    except FormularyError as error:
        return str(error)
    except TimeoutError:
        return f"the database has not answered for {_DATABASE_SECONDS:g} seconds"
    return ""
