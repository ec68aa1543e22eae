"""Error bodies of the HTTP side, in the shape that each path's clients can read (DESIGN sections 7 and 8)."""

import html
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.errors import Overloaded

MCP_PATH = "/mcp"
INVOKE_PATH = "/api/v1/invoke"
SEARCH_PATH = "/api/v1/workflows/search"
SELECTIONS_PATH = "/api/v1/selections"
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""What a browser may do with pages of the console."""
_RPC_PATHS = frozenset({MCP_PATH, INVOKE_PATH})
WELL_KNOWN = "/.well-known/"
_OAUTH_PATHS = frozenset({"/register", "/authorize", "/token"})
_OAUTH_ERRORS = {404: "not_found", 401: "invalid_token", 403: "access_denied", 503: "temporarily_unavailable"}
_WORTH_RETRYING = frozenset({408, 503})
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Formulary</title>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{message}</p>
<p><a href="{console}">Go to the console</a></p>
</main>
</body>
</html>
"""


def is_of_console(path: str) -> bool:
    """Whether a person with a browser is answered there."""
    return path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")


def is_of_oauth(path: str) -> bool:
    """Whether MCP clients look there for an OAuth server, once they have got a 401 or before they try without."""
    return path.removeprefix(MCP_PATH).startswith(WELL_KNOWN) or path in _OAUTH_PATHS


def busy_reply(*, path: str, message: Mapping[str, Any], busy: Overloaded) -> Response:
    """To a call that was not begun: what a model reads where it called a tool, else an error; when to come back."""
    headers = {"Retry-After": str(math.ceil(busy.retry_after))}
    if path != MCP_PATH or "id" not in message:
        return error_reply(path=path, status=503, code=busy.rpc_code, message=str(busy), headers=headers)
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": str(busy)}], "isError": True, **_kind_of_result(message)}
        return JSONResponse({**answer, "result": result}, headers=headers)
    data = {"retry": True, "retry_after_seconds": busy.retry_after}
    error = {"code": busy.rpc_code, "message": str(busy), "data": data}
    return JSONResponse({**answer, "error": error}, status_code=503, headers=headers)


def _kind_of_result(message: Mapping[str, Any]) -> dict[str, str]:
    """Revisions that say theirs with every message require it; older clients may refuse what they do not know."""
    from mcp_types import PROTOCOL_VERSION_META_KEY  # slow, and commands that ask REST load this module

    meta = (message.get("params") or {}).get("_meta")
    stateless = isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta
    return {"resultType": "complete"} if stateless else {}


def error_reply(
    *,
    path: str,
    status: int,
    code: int,
    message: str,
    field: str | None = None,
    data: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A JSON-RPC error without an id where JSON-RPC is spoken, a page in the console, the error of RFC 6749 where an
    OAuth server would be, else `{"error": {"code", "message", "field"}}`.

    `data` says more to programs; without it there is no such member.
    """
    if is_of_console(path):
        said = {"title": HTTPStatus(status).phrase, "message": html.escape(message[:1].upper() + message[1:])}
        page = _PAGE.format(**said, console=CONSOLE_PATH)
        return HTMLResponse(
            page, status_code=status, headers={**SECURITY_HEADERS, "Cache-Control": "no-store", **(headers or {})}
        )
    if path in _RPC_PATHS:
        error = {"code": code, "message": message, "data": {"retry": status in _WORTH_RETRYING}}
        body: dict[str, object] = {"jsonrpc": "2.0", "id": None, "error": error}
    elif is_of_oauth(path):
        body = {"error": _OAUTH_ERRORS.get(status, "invalid_request"), "error_description": message}
    else:
        body = {"error": {"code": code, "message": message, "field": field} | ({"data": data} if data else {})}
    return JSONResponse(body, status_code=status, headers=headers)
