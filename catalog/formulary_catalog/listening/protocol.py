"""HTTP/1.1 of one connection, with bounds: size and number of headers, and the time until a request is complete.

uvicorn has such bounds for h11 alone, which costs more per request. What is checked here per request is a few
comparisons; time is looked after once a second by the limits.
"""

import asyncio
from typing import Any

import httptools
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from formulary_catalog.listening.connection_limits import WORKED_ON, ConnectionLimits, Slot

_PIPELINED = 16
"""Requests that wait behind the one that is answered. uvicorn reads on to the end of what has arrived."""
_CLOSING_SECONDS = 2.0
_CODE = -32002


class _Refused(Exception):
    """A request that is not read any further."""

    def __init__(self, reason: str, *, status: int, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status


class HttpProtocol(HttpToolsProtocol):
    """A connection of HTTP: a `Connection` of the limits."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], *, limits: ConnectionLimits
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.address = ""
        self.due = WORKED_ON
        self._limits = limits
        self._max_headers = limits.settings.max_headers
        self._patience = limits.settings.request_seconds
        self._max_head = limits.settings.max_header_bytes
        self._unused = 0
        """Bytes that have arrived since something was made of them: of a head, of trailers, of chunk extensions."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.due = self._limits.now + self._patience
        place = self._limits.enter(self)
        if place is Slot.NONE:
            transport.abort()
        elif place is Slot.PROBES:
            self.app = _only(self._limits.probes, app=self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """In place of uvicorn's, which logs a line for every malformed request."""
        self._unset_keepalive_if_required()
        self._unused += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # nothing else is spoken here; the request is answered as it is
        except httptools.HttpParserError as error:
            refused = error.__context__
            self._refuse(refused if isinstance(refused, _Refused) else _malformed())
        else:
            if self._unused > self._max_head:
                self._refuse(self._too_large())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.cycle is None or self.cycle.response_complete:
            self.due = self._limits.now + self._patience

    def on_header(self, name: bytes, value: bytes) -> None:
        """In place of uvicorn's, which it repeats: it is what a request calls most."""
        if len(self.headers) >= self._max_headers:
            raise _Refused(
                "headers", status=431, message=f"the request has more than {self._max_headers} headers; send fewer"
            )
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._unused > self._max_head and self._size_of_head() > self._max_head:
            raise self._too_large()
        if len(self.pipeline) >= _PIPELINED:
            raise _Refused("pipelining", status=503, message="too many requests at once; wait for the answers")
        super().on_headers_complete()
        self.headers = []  # What follows are trailers: nobody may take them for headers.
        self._unused = 0

    def on_body(self, body: bytes) -> None:
        self._unused = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unused = 0
        super().on_message_complete()
        if self.cycle.response_complete:
            self._set_due()
        else:
            self.due = WORKED_ON

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_due()

    def pause_writing(self) -> None:
        """The client does not read its answer."""
        super().pause_writing()
        self.due = self._limits.now + self._patience

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_due()

    def end(self) -> None:
        """Close it: the client is late. It is answered only before the end of a head; later it expects no answer."""
        if self.transport.is_closing():
            self.transport.abort()
        elif self._unused:
            message = f"the request did not arrive within {self._patience:g} s; send it again"
            self._refuse(_Refused("slow", status=408, message=message))
        else:
            self._limits.refused("slow", address=self.address)
            self._close()

    def abort(self) -> None:
        """Close it at once."""
        self.transport.abort()

    def _set_due(self) -> None:
        """As the request stands that came last."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self.due = self._limits.now + self.timeout_keep_alive + self._patience
        elif cycle.more_body:
            self.due = self._limits.now + self._patience
        else:
            self.due = WORKED_ON

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _too_large(self) -> _Refused:
        return _Refused(
            "headers", status=431, message=f"the head of the request is over {self._max_head} bytes; send less"
        )

    def _refuse(self, refused: _Refused) -> None:
        if self.transport.is_closing():
            return
        self._limits.refused(refused.reason, address=self.address)
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_answer(refused))
        self._close()

    def _close(self) -> None:
        """Soon, whether the client takes what is still to be sent or not."""
        self.due = self._limits.now + _CLOSING_SECONDS
        self.transport.close()


def _malformed() -> _Refused:
    return _Refused("malformed", status=400, message="this is not HTTP/1.1; send a well-formed request")


def _answer(refused: _Refused) -> bytes:
    body = _body(str(refused))
    head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return STATUS_LINE[refused.status] + head + body


def _body(message: str) -> bytes:
    return b'{"error":{"code":%d,"message":"%s","field":null}}' % (_CODE, message.encode())


def _only(paths: frozenset[str], *, app: ASGIApp) -> ASGIApp:
    """The application, of which only these paths are answered."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in paths:
            await app(scope, receive, send)
            return
        body = _body("the server has too many connections; retry in a second")
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"retry-after", b"1"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answered
