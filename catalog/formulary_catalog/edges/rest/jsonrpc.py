"""JSON-RPC 2.0 on a REST path: one request in, one answer out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse

from formulary_catalog.domain.text import storable
from formulary_catalog.edges.calls.failures import Failure
from formulary_catalog.edges.rest.calls import retry_headers
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.json_text import parsed

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601

RpcId = str | int | float | None


class RpcRefused(Exception):
    """A body that is no request which this path takes."""

    def __init__(self, message: str, *, code: int, status: int, rpc_id: RpcId = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.rpc_id = rpc_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcCall:
    """A well-formed request."""

    id: RpcId
    params: Mapping[str, Any]


def read_call(body: bytes, *, methods: frozenset[str]) -> RpcCall:
    """The request that a body is.

    Raises:
        RpcRefused: it is none, or its method is another one.
    """
    try:
        # Only as UTF-8: in another encoding the edge could not see how deep it is nested.
        message = parsed(body.decode("utf-8-sig"), parse_constant=_no_number)
    except ValueError:
        raise RpcRefused("the body is not JSON", code=PARSE_ERROR, status=400) from None
    except InvalidInput as twice:
        raise RpcRefused(str(twice), code=INVALID_REQUEST, status=400) from None
    rpc_id = _id_of(message)
    if (
        not isinstance(message, dict)
        or message.get("id") != rpc_id  # whoever asks for a run must be able to tell its answer from others
        or message.get("jsonrpc") != "2.0"
        or not isinstance(message.get("method"), str)
        or not isinstance(message.get("params", {}), dict)
    ):
        raise RpcRefused(
            'the body is not one JSON-RPC 2.0 request; send {"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", '
            '"params": {"workflow_id": …, "input": {…}}}',
            code=INVALID_REQUEST,
            status=400,
            rpc_id=rpc_id,
        )
    if message["method"] not in methods:
        raise RpcRefused(
            f"the method is not known; this path takes {' and '.join(sorted(methods))}",
            code=METHOD_NOT_FOUND,
            status=404,
            rpc_id=rpc_id,
        )
    return RpcCall(id=rpc_id, params=message.get("params", {}))


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _id_of(message: object) -> RpcId:
    """The id, to be sent back; None where it is nothing that can be."""
    given = message.get("id") if isinstance(message, dict) else None
    if isinstance(given, str):
        return given if storable(given) else None
    if isinstance(given, float):
        return given if math.isfinite(given) else None
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def rpc_result(rpc_id: RpcId, result: Mapping[str, Any]) -> JSONResponse:
    """The answer to a request."""
    return JSONResponse({"jsonrpc": "2.0", "id": rpc_id, "result": dict(result)})


def rpc_failure(rpc_id: RpcId, failure: Failure) -> JSONResponse:
    """The error of a request, with the HTTP status that says the same."""
    data = {**failure.details, "retry": failure.retryable or failure.retry_after is not None}
    if failure.field is not None:
        data["field"] = failure.field
    error = {"code": failure.code, "message": failure.message, "data": data}
    return JSONResponse(
        {"jsonrpc": "2.0", "id": rpc_id, "error": error}, status_code=failure.status, headers=retry_headers(failure)
    )


def rpc_refusal(refused: RpcRefused) -> JSONResponse:
    """The error of a body that is no request."""
    error = {"code": refused.code, "message": str(refused), "data": {"retry": False}}
    return JSONResponse({"jsonrpc": "2.0", "id": refused.rpc_id, "error": error}, status_code=refused.status)
