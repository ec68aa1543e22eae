"""The HTTP server of all that is served: uvicorn, within limits."""

import asyncio
import contextlib
import socket
import ssl

import uvicorn
from starlette.types import ASGIApp

from formulary_catalog.errors import StartupError
from formulary_catalog.listening.accepting import Accepting, bound
from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.listening.handshake import Handshake
from formulary_catalog.listening.protocol import HttpProtocol

_ACCEPTED_AT_ONCE = 32
"""Each takes a file before the limits can send it away."""
_WAITING_TO_BE_ACCEPTED = 2048


class Server(uvicorn.Server):
    """uvicorn, whose connections are limited."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ConnectionLimits,
        keep_alive_seconds: int,
        grace_seconds: int,
        lifespan: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` is a context that may be changed while it is used; `grace_seconds` is for calls that run at the end."""
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpProtocol,
                ws="none",
                access_log=False,
                log_config=None,
                lifespan="on" if lifespan else "off",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=grace_seconds,
                timeout_keep_alive=keep_alive_seconds,
            )
        )
        self._limits = limits
        self._tls = tls
        self._closing: asyncio.Task[None] | None = None

    async def serve_at(self, *, host: str, port: int) -> None:
        """Serve on an address until it is stopped.

        Raises:
            StartupError: the address cannot be listened on.
        """
        with contextlib.closing(Accepting(bound(host=host, port=port), limits=self._limits)) as accepting:
            try:
                await self.serve(sockets=[accepting])
            finally:
                if self._closing is not None:
                    self._closing.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """In place of uvicorn's, which gives asyncio the handshakes and as many connections at once as may wait."""
        assert sockets is not None
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise StartupError("the application did not start; the log says why")
        loop = asyncio.get_running_loop()
        self._limits.now = loop.time()
        self._closing = asyncio.create_task(self._limits.keep_closing())
        self.servers = []
        for listening in sockets:
            self.servers.append(await loop.create_server(self._connection, sock=listening, backlog=_ACCEPTED_AT_ONCE))
            listening.listen(_WAITING_TO_BE_ACCEPTED)
        self.started = True
        self.listens(sockets[0].getsockname()[1])

    def listens(self, port: int) -> None:
        """It listens, on this port. For those who have to know."""

    def _connection(self) -> asyncio.Protocol:
        if self._tls is None:
            return self._http()
        return Handshake(self._http, context=self._tls, limits=self._limits)

    def _http(self) -> HttpProtocol:
        return HttpProtocol(self.config, self.server_state, self.lifespan.state, limits=self._limits)
