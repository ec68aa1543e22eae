"""Error bodies of the HTTP side, in the shape that each path's clients can read (DESIGN sections 7 and 8)."""

from collections.abc import Mapping

from starlette.responses import JSONResponse

MCP_PATH = "/mcp"
INVOKE_PATH = "/api/v1/invoke"
_RPC_PATHS = frozenset({MCP_PATH, INVOKE_PATH})
_WORTH_RETRYING = frozenset({408, 503})


def error_reply(
    *,
    path: str,
    status: int,
    code: int,
    message: str,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A JSON-RPC error without an id where JSON-RPC is spoken, `{"error": {"code", "message", "field"}}` elsewhere."""
    if path in _RPC_PATHS:
        data = {"retry": status in _WORTH_RETRYING}
        error = {"code": code, "message": message, "data": data}
        body: dict[str, object] = {"jsonrpc": "2.0", "id": None, "error": error}
    else:
        body = {"error": {"code": code, "message": message, "field": field}}
    return JSONResponse(body, status_code=status, headers=headers)
