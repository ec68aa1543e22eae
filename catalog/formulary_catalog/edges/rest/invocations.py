"""Running workflows over REST: JSON-RPC to ask for a run, plain resources to follow and approve it.

`edges.app` mounts both routers. They check calls as the MCP tools do and ask `services.runs.service`, so that a run is
decided in the same way for all callers. Calls may wait for a run, so their deadline is longer.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.runs.report import taken_for_running
from formulary_catalog.edges.calls.caller import caller_of
from formulary_catalog.edges.calls.error_replies import INVOKE_PATH
from formulary_catalog.edges.calls.failures import failure_of, within_deadline
from formulary_catalog.edges.rest.calls import (
    answered,
    checked_call,
    object_body,
    recorded_call,
    services_of,
    unless_json,
)
from formulary_catalog.edges.rest.guarded import Guarded
from formulary_catalog.edges.rest.jsonrpc import RpcRefused, read_call, rpc_failure, rpc_refusal, rpc_result
from formulary_catalog.edges.rest.openapi import body_schema, error_responses, meaning, operation, query_parameters
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.base import without_nulls
from formulary_catalog.operations.arguments.input_schema import Schema
from formulary_catalog.operations.runs import (
    INPUT_EXAMPLE,
    INVOKE,
    STATUS,
    WAITING_CALL_SECONDS,
    ApprovalArguments,
    RpcRunArguments,
    StatusArguments,
)
from formulary_catalog.services.runs.request import InvocationRequest

_RpcId = str | int | float | None
METHODS = frozenset({"invoke_workflow", "workflow.invoke"})
_STATUS_PATH = "/api/v1/invocations/{invocation_id}"
_OLDER_STATUS_PATH = "/api/workflow/status/{invocation_id}"

_log = structlog.get_logger(__name__)

_InvocationId = Annotated[str, Path(description="`invocation_id` of an answer.")]


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


class _Patient(Guarded):
    """A route whose calls may wait for a run."""

    seconds = WAITING_CALL_SECONDS


router = APIRouter(route_class=_Patient, tags=["invocations"])
rpc_router = APIRouter(tags=["invocations"])
"""What is asked by JSON-RPC has errors of its own."""


@rpc_router.post(
    INVOKE_PATH,
    operation_id="invoke_workflow",
    summary="Run a workflow",
    response_model=RpcAnswer,
    responses=INVOKE_RESPONSES,
    openapi_extra=INVOKE_OPERATION,
)
async def invoke(request: Request) -> Response:
    """Ask for a run by JSON-RPC: waits for it up to 30 s, or answers at once where `timeoutMs` is above that."""
    if (refusal := unless_json(request)) is not None:
        return refusal
    rpc_id, outcome = None, "refused"
    try:
        call = read_call(await request.body(), methods=METHODS)
        rpc_id = call.id
        answer = await within_deadline(_invoke(request, call.params), seconds=WAITING_CALL_SECONDS)
        outcome = "ok"
        return rpc_result(rpc_id, answer.model_dump(mode="json"))
    except RpcRefused as refused:
        return rpc_refusal(refused)
    except Exception as error:
        failure = failure_of(error)
        outcome = failure.outcome
        return rpc_failure(rpc_id, failure)
    finally:
        _log.info("rest_call", operation="invoke_workflow", outcome=outcome)


@router.get(
    _STATUS_PATH,
    operation_id="get_invocation",
    summary="Follow a run",
    response_model=InvocationAnswer,
    responses=error_responses(404),
    openapi_extra=STATUS_OPERATION,
)
async def get_invocation(request: Request, invocation_id: _InvocationId) -> Response:
    """The state of a run. With `wait_ms` the call waits for a change."""
    return answered(await _status(request))


@router.get(
    _OLDER_STATUS_PATH,
    operation_id="get_workflow_status",
    summary="Follow a run, at its older path",
    response_model=InvocationAnswer,
    responses=error_responses(404),
    openapi_extra=STATUS_OPERATION,
)
async def get_workflow_status(request: Request, invocation_id: _InvocationId) -> Response:
    """The state of a run for older clients: a pending run is reported as `running`."""
    return answered(taken_for_running(await _status(request)))


@router.post(
    _STATUS_PATH + "/approval",
    operation_id="approve_invocation",
    summary="Approve or reject a run",
    response_model=InvocationAnswer,
    responses=error_responses(404, 413, 415),
    openapi_extra=APPROVAL_OPERATION,
)
async def approve_invocation(request: Request, invocation_id: _InvocationId) -> Response:
    """Approve or reject a run that waits for it, in the name of the caller."""
    body = await object_body(request)
    _, approval = await recorded_call(
        request,
        INVOKE.action,
        given=lambda: {"invocation_id": invocation_id, **ApprovalArguments.recordable(body)},
        read=lambda _: ApprovalArguments.read(body),
    )
    answer = await services_of(request).invocations.approve(
        invocation_id,
        decision=ApprovalDecision(approval.decision),
        reason=approval.reason,
        digest=approval.digest,
        caller=caller_of(request),
    )
    return answered(answer)


async def _invoke(request: Request, params: Mapping[str, Any]) -> InvocationAnswer:
    context, asked = await checked_call(request, INVOKE.action, RpcRunArguments, given=without_nulls(params))
    wanted = InvocationRequest(
        workflow_id=asked.workflow_id,
        version=asked.version,
        input=asked.input,
        search_id=asked.search_id,
        **dict(asked.options),
    )
    try:
        return await services_of(request).invocations.invoke(wanted, context=context, caller=caller_of(request))
    except InvalidInput as error:
        if error.field != "timeout_ms":
            raise
        written = "options.timeoutMs"
        raise InvalidInput(str(error).replace(error.field, written), field=written) from None


async def _status(request: Request) -> InvocationAnswer:
    _, asked = await checked_call(request, STATUS.action, StatusArguments)
    return await services_of(request).invocations.status(
        asked.invocation_id,
        caller=caller_of(request),
        wait_seconds=asked.wait_ms / 1000,
        after_revision=asked.after_revision,
    )
