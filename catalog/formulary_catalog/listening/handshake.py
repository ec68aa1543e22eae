"""A connection that TLS is being agreed on with: it counts, and has its time, like any other."""

import asyncio
import ssl
from collections.abc import Callable

from formulary_catalog.listening.connection_limits import WORKED_ON, ConnectionLimits, Slot
from formulary_catalog.listening.protocol import HttpProtocol


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
