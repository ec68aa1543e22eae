"""Runs: asking for one and following it, as tools; what waits for a person, lists and outcomes.

The routes that ask for a run, follow and approve it are `edges.rest.invocations`. REST records refused calls under the
actions of these tools.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, AliasGenerator, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.answers.answer_size import MAX_ANSWER_BYTES
from formulary_catalog.domain.answers.browsing import PendingApprovals
from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.domain.answers.shortening import Json, fit, size
from formulary_catalog.domain.reading import InvocationPage, OutcomesAnswer, WaitingRunList
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.operations.arguments.base import Arguments, Flag, Object
from formulary_catalog.operations.arguments.browsing import ApprovalsArguments
from formulary_catalog.operations.arguments.catalog import DetailsArguments, SearchId
from formulary_catalog.operations.arguments.reading import InvocationsArguments, OutcomesArguments, WaitingArguments
from formulary_catalog.operations.operation import CALL_SECONDS, Call, Operation, Route, Tool
from formulary_catalog.operations.workflows import short
from formulary_catalog.services.runs.request import (
    MAX_KEY_LENGTH,
    MAX_REASON_LENGTH,
    MAX_TIMEOUT_MS,
    MAX_WAIT_MS,
    MIN_TIMEOUT_MS,
    InvocationRequest,
)
from formulary_catalog.settings import Toolset

INPUT_EXAMPLE = {
    "NAMESPACE": "shop",
    "WORKLOAD": "deployment/checkout",
    "SELECTOR": "app=checkout",
    "CONTAINER": "app",
    "MEMORY_LIMIT": "512Mi",
}
WAITING_CALL_SECONDS = CALL_SECONDS + MAX_WAIT_MS / 1000 + 5
"""Deadline of a call that may wait for a run, beside all that any call may take."""
_LEFT_OUT = "manifest is left out, being too large; {whole}"
_FOLLOW = "follow it with {tool}, invocation_id {id}, after_revision {revision}, wait_ms 30000"
_WHOLE = "GET /api/v1/invocations/{id} has the whole"
_STATUS = "get_invocation_status"
_HOW_TO_DECIDE = "decide with `formulary approve ID --digest DIGEST --reason …` or `formulary reject ID --reason …`"


class _Run(DetailsArguments):
    input: Object = Field(
        default_factory=dict,
        repr=False,
        description="Values of the parameters, by input_schema.",
        examples=[{"NAMESPACE": "shop", "MEMORY_LIMIT": "512Mi"}],
    )


class _Options(Arguments):
    timeout_ms: int | None = Field(
        None,
        ge=MIN_TIMEOUT_MS,
        le=MAX_TIMEOUT_MS,
        description=f"Deadline of the run; up to {MAX_WAIT_MS} the call waits for its end. Without it a run that needs "
        "longer goes on.",
        examples=[30000],
    )
    idempotency_key: str = Field(
        "",
        max_length=MAX_KEY_LENGTH,
        repr=False,
        description="Your own text: the same call again is the same run.",
        examples=["checkout-oom-1"],
    )
    dry_run: Flag = Field(False, description="true: change nothing, return what would be created.", examples=[True])


def _both_spellings(name: str) -> AliasChoices:
    return AliasChoices(name, to_camel(name))


class RunArguments(_Options, _Run):
    """The run that is asked for, as the tool takes it: each argument also as JSON-RPC spells it."""

    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=_both_spellings))

    search_id: SearchId = ""


class RpcOptions(_Options):
    """The options of a run, as JSON-RPC spells them."""

    model_config = ConfigDict(alias_generator=to_camel)


class RpcRunArguments(_Run):
    """The run that is asked for, as JSON-RPC takes it."""

    search_id: SearchId = ""
    options: RpcOptions = Field(RpcOptions(), examples=[{"timeoutMs": 30000}])


class StatusArguments(Arguments):
    """Which run is to be followed, and how long."""

    invocation_id: str = Field(
        max_length=MAX_LABEL_LENGTH,
        description="invocation_id of an answer of invoke_workflow.",
        examples=["inv-0123456789abcdef0123"],
    )
    wait_ms: int = Field(
        0,
        ge=0,
        le=MAX_WAIT_MS,
        description="How long to wait for a change; 0 without it.",
        examples=[30000],
    )
    after_revision: int | None = Field(
        None,
        ge=0,
        le=2**53 - 1,
        description="revision of the last answer.",
        examples=[2],
    )


def _capitalized(value: Any) -> Any:
    return value.strip().capitalize() if isinstance(value, str) else value


class ApprovalArguments(Arguments):
    """What somebody says to a run that waits."""

    decision: Annotated[Literal["Approve", "Reject"], BeforeValidator(_capitalized)] = Field(
        description="Approve or Reject.", examples=["Approve"]
    )
    reason: str = Field(
        "",
        max_length=MAX_REASON_LENGTH,
        description="Reason, recorded in the audit trail.",
        examples=["Checked with the team that owns it."],
    )
    digest: str = Field(
        "",
        max_length=100,
        description="content.digest of the run; an approval with it counts for that content alone.",
        examples=["sha256:" + "0" * 64],
    )


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
    follow = _FOLLOW.format(tool=_STATUS, id=answer.invocation_id, revision=answer.revision)
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


async def _waiting(call: Call[WaitingArguments]) -> WaitingRunList:
    waiting = await call.services.runs.waiting(**call.arguments.page, caller=call.caller)
    notes = [*([_HOW_TO_DECIDE] if waiting.approvals else []), *waiting.notes]
    return waiting.model_copy(update={"notes": notes})


INVOKE = Operation(
    action="invocation.refused",
    arguments=RunArguments,
    answer=InvocationAnswer,
    run=_invoke,
    tool=Tool(
        name="invoke_workflow",
        toolset=Toolset.RUNS,
        title="Run a workflow",
        description=(
            "Run the workflow you chose. Call get_workflow_details first and give input by its input_schema. Rules "
            "decide: awaiting_approval means that a person must approve, so tell them and do not call again; a refusal "
            "names the rule. It waits up to 30000 ms for output; with a longer timeout_ms it returns invocation_id at "
            "once: follow it with get_invocation_status."
        ),
        shrink=_shrink,
        read_only=False,
        destructive=True,
        seconds=WAITING_CALL_SECONDS,
        narrowed_by=("input", "dry_run", "search_id"),
    ),
)
STATUS = Operation(
    action="status",
    arguments=StatusArguments,
    answer=InvocationAnswer,
    run=_status,
    tool=Tool(
        name=_STATUS,
        toolset=Toolset.RUNS,
        title="Follow a run",
        description=(
            "State of a run. To wait, give wait_ms and the last revision as after_revision: it returns when something "
            "has changed or the time is up. Over are completed, failed, timed_out, cancelled and halted."
        ),
        shrink=_shrink,
        seconds=WAITING_CALL_SECONDS,
        narrowed_by=("wait_ms", "after_revision"),
    ),
)
PENDING = Operation(
    action="read.approvals",
    arguments=ApprovalsArguments,
    answer=PendingApprovals,
    run=lambda call: call.services.approvals.pending(call.arguments.request, context=call.context, caller=call.caller),
    tool=Tool(
        name="list_pending_approvals",
        toolset=Toolset.APPROVALS,
        title="List runs that wait for a person",
        description=(
            "Which runs wait for an approval, why, and until when, to tell the people who decide. It approves nothing; "
            "get_invocation_status follows one run."
        ),
        shrink=short,
        narrowed_by=("namespace", "limit"),
    ),
)
WAITING = Operation(
    action="read.approvals",
    arguments=WaitingArguments,
    answer=WaitingRunList,
    run=_waiting,
    route=Route(
        path="/approvals",
        id="list_approvals",
        tag="reading",
        summary="List runs that wait for a person",
        description="Runs that wait, the oldest first, with what each would run. Reading approves nothing.",
    ),
    of_incident=False,
)
INVOCATIONS = Operation(
    action="read.invocations",
    arguments=InvocationsArguments,
    answer=InvocationPage,
    run=lambda call: call.services.runs.page(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/invocations",
        id="list_invocations",
        tag="reading",
        summary="List runs",
        description="The caller's own runs, and those of the namespaces in which it may read runs, the newest first.",
    ),
    of_incident=False,
)
OUTCOMES = Operation(
    action="read.outcomes",
    arguments=OutcomesArguments,
    answer=OutcomesAnswer,
    run=lambda call: call.services.runs.outcomes(**dict(call.arguments), caller=call.caller),
    route=Route(
        path="/outcomes",
        id="get_outcomes",
        tag="reading",
        summary="Read how runs ended over time",
        description=(
            "Outcomes by day or week, of all runs that the caller may read or of one workflow. Dry runs do not count."
        ),
        errors=(404,),
    ),
    of_incident=False,
)

OPERATIONS = (INVOKE, STATUS, PENDING, WAITING, INVOCATIONS, OUTCOMES)
