"""Small HTTP servers beside the operator's work, in its event loop."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from formulary_catalog.errors import StartupError

_GRACE_SECONDS = 2

# Clients written in Go give up an idle connection after 90 s. If we did so first, a request could get lost.
_KEEP_ALIVE_SECONDS = 120


class _Server(uvicorn.Server):
    """uvicorn, which leaves the signals of the process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Config(uvicorn.Config):
    """uvicorn's settings, with a TLS context that somebody else keeps fresh."""

    context: ssl.SSLContext | None = None

    def load(self) -> None:
        super().load()
        self.ssl = self.context


@asynccontextmanager
async def served(app: ASGIApp, *, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve while inside; the port listened on.

    Raises:
        StartupError: the address cannot be listened on.
    """
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise StartupError(
            f"cannot listen on port {port} of {host}: {error.strerror}; choose another port in the settings"
        ) from error
    # asyncio turns off Nagle's algorithm only where the protocol is named; with it on, answers wait 40 ms.
    listening = socket.socket(listening.family, listening.type, socket.IPPROTO_TCP, fileno=listening.detach())
    config = _Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    config.context = tls
    server = _Server(config)
    with contextlib.closing(listening):
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving
