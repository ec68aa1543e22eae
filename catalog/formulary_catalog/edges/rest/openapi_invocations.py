"""What the OpenAPI document says of running workflows beyond what the framework derives."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.edges.rest.openapi import body_schema, meaning, operation, query_parameters
from formulary_catalog.operations.arguments.input_schema import Schema
from formulary_catalog.operations.arguments.run import (
    INPUT_EXAMPLE,
    ApprovalArguments,
    RpcRunArguments,
    StatusArguments,
)

_RpcId = str | int | float | None


class RpcAnswer(BaseModel):
    """A JSON-RPC 2.0 answer."""

    jsonrpc: Literal["2.0"]
    id: _RpcId
    result: InvocationAnswer


class RpcErrorDetail(BaseModel):
    """What went wrong. `data` has `retry`; `problems` of the input; `invocation_id`, `decision` and the like."""

    code: int = Field(examples=[-32002])
    message: str
    data: dict[str, Any]


class RpcErrorAnswer(BaseModel):
    """A JSON-RPC 2.0 error."""

    jsonrpc: Literal["2.0"]
    id: _RpcId
    error: RpcErrorDetail


_STATUSES = {
    400: "-32002: the input breaks a rule, each one in data.problems; or the body is no JSON-RPC request.",
    401: "-32000: no bearer token, or an invalid one.",
    403: "-32000: the caller lacks a right; -32003: the rules forbid the run, data.decision says which.",
    404: "-32001: no workflow of that name is allowed here; -32601: another method.",
    408: "-32004: the run took longer than it may.",
    429: "-32003: the caller has as many runs as it may have; Retry-After says when to come back.",
    500: "-32003: the run failed, or nothing here runs workflows.",
}
INVOKE_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": RpcErrorAnswer, "description": _STATUSES.get(status) or meaning(status)}
    for status in (400, 401, 403, 404, 408, 413, 415, 421, 429, 500, 503)
}


def _invoke_body() -> Schema:
    rpc_id = {"type": ["string", "number", "null"]}
    method = {"type": "string", "enum": ["invoke_workflow", "workflow.invoke"]}
    return {
        "type": "object",
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": rpc_id,
            "method": method,
            "params": body_schema(RpcRunArguments),
        },
        "required": ["jsonrpc", "method", "params"],
    }


STATUS_OPERATION = operation(query=query_parameters(StatusArguments, in_path=("invocation_id",)))
INVOKE_OPERATION = operation(
    body=_invoke_body(),
    example={
        "jsonrpc": "2.0",
        "id": 1,
        "method": "invoke_workflow",
        "params": {
            "workflow_id": "oom-raise-memory-limit",
            "input": INPUT_EXAMPLE,
            "options": {"timeoutMs": 30000, "idempotencyKey": "checkout-oom-1", "dryRun": True},
        },
    },
)
APPROVAL_OPERATION = operation(
    body=body_schema(ApprovalArguments),
    example={"decision": "Approve", "reason": "Checked with the team that owns it."},
)
