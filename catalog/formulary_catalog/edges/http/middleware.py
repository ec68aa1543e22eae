"""The outermost layer: which Host is answered, what is refused before a framework looks at it (DESIGN section 8).

`edges.app` wraps the whole application in it. Every call passes: Host, Origin, method and size are checked, then who
calls; then the body is read, and the call waits for a slot. Strangers are refused before their body is read.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from formulary_catalog.domain.access import Authenticator, Caller
from formulary_catalog.domain.console_address import CONSOLE_PATH, FAVICON_PATH
from formulary_catalog.edges.calls.caller import with_caller
from formulary_catalog.edges.calls.error_replies import (
    INVOKE_PATH,
    MCP_PATH,
    SEARCH_PATH,
    SELECTIONS_PATH,
    busy_reply,
    error_reply,
    is_of_console,
    is_of_oauth,
)
from formulary_catalog.edges.http.authentication import (
    FIXED_HEADER_PATH,
    MAX_ALERT_BYTES,
    METADATA_PATHS,
    Anybody,
    Identification,
    ProtectedResource,
    is_of_sender,
)
from formulary_catalog.edges.http.concurrency import Admission
from formulary_catalog.errors import InvalidInput, Overloaded
from formulary_catalog.operations.json_text import MAX_DEPTH, nested_too_deep, parsed

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?:https?://)?(?:\[([^\]\s]+)\]|([^:/@?#\\\s\[\]]+))(?::\d{1,5})?", re.IGNORECASE)
MAX_BODY_BYTES = 64 * 1024
TRIED_PATH = f"{CONSOLE_PATH}/rules/tried"
MAX_TRIED_BYTES = 256 * 1024
"""Of the form with a contract: a browser ends its lines with two bytes, and a character may have four."""
POSTED = frozenset({MCP_PATH, INVOKE_PATH, SEARCH_PATH, SELECTIONS_PATH})
"""These take POST alone: there are no sessions and standing streams of MCP, and no workflow named `search`."""
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Answered under any Host, since probes and scrapers come by pod address, and never queued behind calls."""
_MCP_ALIAS = f"{MCP_PATH}/"
"""Several clients add the slash."""
_UNAUTHORIZED = 401
_CORS = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "accept, authorization, content-type, mcp-method, mcp-name, mcp-protocol-version, "
    "mcp-session-id, x-aianalysis, x-remediation-id",
    "Access-Control-Max-Age": "600",
}
_BODY_SECONDS = 10.0
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_INPUT_INVALID = -32002
_ANYBODY = Anybody()


class HostRule:
    """Loopback names, the names from the settings and the address listened on; ports do not matter."""

    def __init__(self, *, allowed: Iterable[str], listening_on: str) -> None:
        names = {name.casefold().strip("[]") for name in (*allowed, listening_on)}
        self._names = LOOPBACK_NAMES | {name for name in names if name and not _is_wildcard(name)}

    def allows_host(self, header: str) -> bool:
        """Whether a `Host` header, with or without a port, names this server."""
        return _hostname(header) in self._names

    def allows_origin(self, header: str) -> bool:
        """Whether a browser page of this `Origin` may call; an empty header means no browser page."""
        return not header or _hostname(header) in self._names


def _hostname(authority: str) -> str:
    matched = _AUTHORITY.fullmatch(authority)
    return (matched.group(1) or matched.group(2)).casefold() if matched else ""


def _is_wildcard(name: str) -> bool:
    try:
        return ip_address(name).is_unspecified
    except ValueError:
        return False


class Identifies(Protocol):
    """Finds out who sends a request, before its body is read."""

    async def of(self, scope: Scope) -> Caller | Response:
        """The caller, or the refusal to send."""


class Edge:
    """Checks Host, Origin, method and size, then who calls; reads the body, and waits until the call may begin.

    Header values lose the spaces around them: httptools keeps them, and the MCP SDK compares some values exactly.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: HostRule,
        admission: Admission,
        authenticator: Authenticator = _ANYBODY,
        visitors: Identifies | None = None,
        senders: Identifies | None = None,
        resource: ProtectedResource | None = None,
    ) -> None:
        """`visitors` finds out who looks at the console, whose pages lead strangers to a page where they sign in;
        `senders`, which incident source sends alerts.

        `resource` tells MCP clients where to sign in; None where nobody can.
        """
        self._app = app
        self._hosts = hosts
        self._identification: Identifies = Identification(authenticator)
        self._visitors = visitors or self._identification
        self._senders = senders or self._identification
        self._admission = admission
        self._resource = resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        resource = None if scope["path"] == FIXED_HEADER_PATH else self._resource
        if scope["path"] in (_MCP_ALIAS, FIXED_HEADER_PATH):
            scope = {**scope, "path": MCP_PATH, "raw_path": MCP_PATH.encode()}
        if origin := _local_page(scope):
            send = _readable_by(origin, send=send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if resource is not None and scope["path"] in METADATA_PATHS:
            await JSONResponse(resource.metadata(scope))(scope, receive, send)
            return
        if scope["path"] in PROBES or is_of_oauth(scope["path"]):  # there is none: 404, without asking who calls
            await self._app(scope, receive, send)
            return
        # Before the body is read: strangers are not worth the memory.
        caller = await self._who_knows(scope).of(scope)
        if isinstance(caller, Caller):
            await self._call(with_caller(scope, caller), receive, send, caller=caller.name)
        else:
            if resource is not None and scope["path"] == MCP_PATH and caller.status_code == _UNAUTHORIZED:
                challenge = caller.headers.get("www-authenticate", "Bearer")
                caller.headers["www-authenticate"] = f"{challenge}, {resource.challenge(scope)}"
            await caller(scope, receive, send)

    def _who_knows(self, scope: Scope) -> Identifies:
        """What finds out who sends a request."""
        if is_of_sender(scope):
            return self._senders
        return self._visitors if _is_for_people(scope) else self._identification

    async def _call(self, scope: Scope, receive: Receive, send: Send, *, caller: str) -> None:
        path = scope["path"]
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await _read_body(receive, at_most=_longest(scope))
        except TimeoutError:
            await _late(path)(scope, receive, send)
            return
        if body is None:
            return
        message = _message(scope, body)
        if isinstance(message, Response):
            await message(scope, receive, send)
            return
        try:
            async with self._admission.lane(path, message).slot(caller) as waited:
                if not (waited and await _has_left(receive)):
                    await self._app(scope, _replay(body, receive), send)
        except Overloaded as busy:
            await busy_reply(path=path, message=message, busy=busy)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        path, headers = scope["path"], Headers(scope=scope)
        if len(headers.getlist("host")) > 1:
            return error_reply(
                path=path, status=400, code=_INPUT_INVALID, message="Host is sent more than once; send it once"
            )
        if path not in PROBES and not self._hosts.allows_host(headers.get("host", "")):
            return error_reply(
                path=path,
                status=421,
                code=_INPUT_INVALID,
                message="this Host is not served; use a loopback name or add the name to FORMULARY_ALLOWED_HOSTS",
            )
        # Forms of pages without a referrer come from `null`; the console finds out which page sent them.
        is_hidden = headers.get("origin") == "null" and _is_for_people(scope)
        if not is_hidden and not self._hosts.allows_origin(headers.get("origin", "")):
            return error_reply(
                path=path,
                status=403,
                code=_INPUT_INVALID,
                message="pages of this Origin may not call; add its host to FORMULARY_ALLOWED_HOSTS",
            )
        if scope["method"] == "OPTIONS" and _local_page(scope) and "access-control-request-method" in headers:
            return Response(status_code=204, headers=_CORS)
        if path in POSTED and scope["method"] != "POST":
            return error_reply(
                path=path,
                status=405,
                code=_INVALID_REQUEST if path == MCP_PATH else _INPUT_INVALID,
                message=f"{path} takes POST only",
                headers={"Allow": "POST"},
            )
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > _longest(scope):
            return _too_large(scope)
        return None


def _local_page(scope: Scope) -> str:
    """The Origin of a page of this machine that calls the MCP server of this machine, such as the MCP Inspector.

    Whatever such a page sends is its own: cookies are not, and a token has to be put into it. Empty for all others.
    """
    headers = Headers(scope=scope)
    origin = headers.get("origin", "")
    local = {_hostname(origin), _hostname(headers.get("host", ""))} <= LOOPBACK_NAMES
    return origin if scope["path"] in (MCP_PATH, *METADATA_PATHS) and local else ""


def _readable_by(origin: str, *, send: Send) -> Send:
    """Lets a page of this origin read the answer."""
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"retry-after, www-authenticate"),
        (b"vary", b"Origin"),
    ]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return sent


def _is_for_people(scope: Scope) -> bool:
    """Whether a person with a browser is answered: by the console, or by the way there."""
    path: str = scope["path"]
    if path == "/":
        return scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")
    return path == FAVICON_PATH or is_of_console(path)


def _longest(scope: Scope) -> int:
    """So many bytes the body of a request may have."""
    if is_of_sender(scope):
        return MAX_ALERT_BYTES
    return MAX_TRIED_BYTES if scope["path"] == TRIED_PATH else MAX_BODY_BYTES


async def _read_body(receive: Receive, *, at_most: int) -> bytes | None:
    """The body, or its beginning just past the limit; None if the client has gone."""
    body = bytearray()
    while len(body) <= at_most:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    def once() -> Iterator[Message]:
        yield {"type": "http.request", "body": body, "more_body": False}

    messages = once()

    async def replayed() -> Message:
        return next(messages, None) or await receive()

    return replayed


async def _has_left(receive: Receive) -> bool:
    """Whether the client that waited is gone: nobody would read the answer."""
    try:
        async with asyncio.timeout(0):
            message = await receive()
    except TimeoutError:
        return False
    return bool(message["type"] == "http.disconnect")


def _late(path: str) -> Response:
    return error_reply(
        path=path,
        status=408,
        code=_INPUT_INVALID,
        message=f"the request body did not arrive within {_BODY_SECONDS:g} s; send the request again",
        headers={"Connection": "close"},
    )


def _message(scope: Scope, body: bytes) -> Mapping[str, Any] | Response:
    """The JSON-RPC message of a body where the path is that of MCP, nothing elsewhere; or the refusal to send."""
    path = scope["path"]
    if len(body) > _longest(scope):
        return _too_large(scope)
    if nested_too_deep(body):
        return _too_deep(path)
    return _rpc_message(body) if path == MCP_PATH else {}


def _too_large(scope: Scope) -> Response:
    less = "fewer alerts at once" if is_of_sender(scope) else "less, the essential words first"
    return error_reply(
        path=scope["path"],
        status=413,
        code=_INPUT_INVALID,
        message=f"the request body is over {_longest(scope)} bytes; send {less}",
    )


def _too_deep(path: str) -> Response:
    return error_reply(
        path=path,
        status=400,
        code=_INVALID_REQUEST if path == MCP_PATH else _INPUT_INVALID,
        message=f"the request body is nested deeper than {MAX_DEPTH} levels; send plain values",
        field="body",
    )


def _rpc_message(body: bytes) -> Mapping[str, Any] | Response:
    """One clear line where the SDK would answer with the whole report of its validator."""
    try:
        message = parsed(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return error_reply(path=MCP_PATH, status=400, code=_PARSE_ERROR, message="the body is not JSON")
    except InvalidInput as twice:
        return error_reply(path=MCP_PATH, status=400, code=_INVALID_REQUEST, message=str(twice))
    well_formed = (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and type(message.get("id", 0)) in (int, str)  # true and false are numbers only to Python
        and isinstance(message.get("params", {}), dict | None)
    )
    if well_formed:
        return dict(message)
    return error_reply(
        path=MCP_PATH,
        status=400,
        code=_INVALID_REQUEST,
        message="the body is not one JSON-RPC 2.0 request or notification (method, params, id)",
    )
