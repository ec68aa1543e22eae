"""The HTTP server of all that is served: uvicorn, within limits.

It accepts connections also while the process is out of files. One that TLS is being agreed on with counts, and has its
time, like any other.
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from formulary_catalog.errors import StartupError
from formulary_catalog.listening.connection_limits import WORKED_ON, ConnectionLimits, Slot
from formulary_catalog.listening.protocol import HttpProtocol

_ACCEPTED_AT_ONCE = 32
"""Each takes a file before the limits can send it away."""
_WAITING_TO_BE_ACCEPTED = 2048
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


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


def bound(*, host: str, port: int) -> socket.socket:
    """A socket bound to an address.

    Raises:
        StartupError: the address cannot be listened on.
    """
    try:
        # The protocol has to be named: asyncio turns off Nagle's algorithm only where it reads TCP, and with it on,
        # each small answer waits 40 ms for the client's acknowledgement.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise StartupError(
            f"cannot listen on port {port} of {host}: {error.strerror}; choose another port or address"
        ) from error
    return listening


class Accepting(socket.socket):
    """A listening socket that keeps one file in reserve.

    Without files, asyncio logs a traceback for each of the connections that wait, again and again, and accepts none.
    Here the reserve is given up for a moment, the client is sent away, and a connection that waits for its own client
    is closed.
    """

    def __init__(self, listening: socket.socket, *, limits: ConnectionLimits) -> None:
        """Takes the socket over."""
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())
        self._limits = limits
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise
        os.close(self._spare)
        try:
            turned_away, address = super().accept()
            turned_away.close()
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        self._limits.refused("files", address=str(address[0]))
        self._limits.make_room()
        raise BlockingIOError  # "none just now": the loop asks again

    def close(self) -> None:
        if self.fileno() != -1:
            os.close(self._spare)
        super().close()


class Handshake(asyncio.Protocol):
    """A `Connection` of the limits until TLS is agreed on; HTTP takes over then.

    asyncio would call its protocol only then, and give a client a minute for it.
    """

    def __init__(self, http: Callable[[], HttpProtocol], *, context: ssl.SSLContext, limits: ConnectionLimits) -> None:
        self.address = ""
        self.due = WORKED_ON
        self._http = http
        self._context = context
        self._limits = limits
        self._early: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._agreeing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self.due = self._limits.now + self._limits.settings.request_seconds
        if self._limits.enter(self) is Slot.NONE:
            transport.abort()
        else:
            transport.pause_reading()
            self._agreeing = asyncio.create_task(self._agree(transport))

    def data_received(self, data: bytes) -> None:
        """What the client sent together with its last word of the handshake."""
        self._early.append(data)

    def end(self) -> None:
        """Close it: the client takes too long."""
        self._limits.refused("slow", address=self.address)
        self.abort()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _agree(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(transport, self, self._context, server_side=True)
        except OSError:  # whatever was sent there was no TLS, or the client has gone
            self._limits.refused("malformed", address=self.address)
            transport.abort()
            return
        finally:
            self._limits.leave(self)
        if secured is None or secured.is_closing():
            return
        http = self._http()
        http.connection_made(secured)
        secured.set_protocol(http)
        for data in self._early:
            http.data_received(data)
