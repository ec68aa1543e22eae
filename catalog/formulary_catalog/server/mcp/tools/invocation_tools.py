"""The tools that run what was found: asking for a run, and following it.

`tool_list` lists them in the toolset that runs workflows; `server.mcp.server` calls them. They pass a checked call to
`runs.service` and shorten its answer. REST records refused calls under the same names.
"""

from formulary_catalog.domain.answers.answer_size import MAX_ANSWER_BYTES
from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.domain.answers.shortening import Json, fit, size
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.operations.arguments.run import RunArguments, StatusArguments
from formulary_catalog.operations.arguments.target import Targeted
from formulary_catalog.operations.operation import Call
from formulary_catalog.runs.request import MAX_WAIT_MS, InvocationRequest
from formulary_catalog.server.calls.failures import CALL_SECONDS
from formulary_catalog.server.mcp.tools.catalog_tools import catalog_tool

WAITING_CALL_SECONDS = CALL_SECONDS + MAX_WAIT_MS / 1000 + 5
"""Deadline of a call that may wait for a run, beside all that any call may take."""
_LEFT_OUT = "manifest is left out, being too large; {whole}"
_FOLLOW = "follow it with {tool}, invocation_id {id}, after_revision {revision}, wait_ms 30000"
_WHOLE = "GET /api/v1/invocations/{id} has the whole"


async def _invoke(call: Call[RunArguments]) -> InvocationAnswer:
    answer = await call.services.invocations.invoke(
        InvocationRequest(**call.arguments.untargeted), context=call.context, caller=call.caller, progress=call.progress
    )
    return _with_next_step(answer)


async def _status(call: Call[StatusArguments]) -> InvocationAnswer:
    answer = await call.services.invocations.status(
        call.arguments.invocation_id,
        caller=call.caller,
        wait_seconds=call.arguments.wait_ms / 1000,
        after_revision=call.arguments.after_revision,
        progress=call.progress,
    )
    return _with_next_step(answer)


def _with_next_step(answer: InvocationAnswer) -> InvocationAnswer:
    """The answer with the way to follow a run that is not over; only models follow it with a tool."""
    if Phase(answer.phase).is_final:
        return answer
    follow = _FOLLOW.format(tool=STATUS_TOOL.name, id=answer.invocation_id, revision=answer.revision)
    return answer.model_copy(update={"notes": [*answer.notes, follow]})


def _shrink(answer: Json) -> Json:
    """A manifest in part is worse than none."""
    if size(answer) <= MAX_ANSWER_BYTES:
        return answer
    whole = _WHOLE.format(id=answer["invocation_id"])
    if answer["manifest"]:
        note = _LEFT_OUT.format(whole=whole)
        answer = {**answer, "manifest": {}, "notes": [*answer["notes"], note]}
    return fit(answer, whole=whole)


INVOKE_TOOL = catalog_tool(
    name="invoke_workflow",
    title="Run a workflow",
    description=(
        "Run the workflow you chose, against the target of the incident. Call get_workflow_details first and give "
        "input by its input_schema. Rules decide: awaiting_approval means that a person must approve, so tell them and "
        "do not call again; a refusal names the rule. It waits up to 30000 ms for output; with a longer timeout_ms it "
        "returns invocation_id at once: follow it with get_invocation_status. With an idempotency_key the same call "
        "again is the same run. With dry_run nothing is changed and manifest is returned."
    ),
    action="invocation.refused",
    arguments=RunArguments,
    answer=InvocationAnswer,
    run=_invoke,
    shrink=_shrink,
    read_only=False,
    destructive=True,
    seconds=WAITING_CALL_SECONDS,
    narrowed_by=("input", "dry_run", "search_id"),
    unlisted=tuple(Targeted.model_fields),  # search_id says it, and costs a model less
)
STATUS_TOOL = catalog_tool(
    name="get_invocation_status",
    title="Follow a run",
    description=(
        "State of a run, by the invocation_id of invoke_workflow. To wait rather than ask again and again, give "
        "wait_ms and the last revision as after_revision: it returns when something has changed or the time is up. "
        "Over are completed, failed, timed_out, cancelled and halted. Changes nothing."
    ),
    action="status",
    arguments=StatusArguments,
    answer=InvocationAnswer,
    run=_status,
    shrink=_shrink,
    seconds=WAITING_CALL_SECONDS,
    narrowed_by=("wait_ms", "after_revision"),
)
INVOCATION_TOOLS = (INVOKE_TOOL, STATUS_TOOL)
