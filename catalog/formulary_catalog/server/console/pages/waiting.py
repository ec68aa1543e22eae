"""The first page: the runs that wait for a person, what each would do, and the forms that decide on them.

An open page asks for changes every few seconds and gets what is new alone, so that nothing moves under who types.
"""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from formulary_catalog.domain.access import APPROVE, READ_INVOCATIONS
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.reading import WaitingRunList
from formulary_catalog.domain.search.request import MAX_LABEL_LENGTH
from formulary_catalog.runs.request import MAX_REASON_LENGTH
from formulary_catalog.server.calls.arguments.reading import MAX_PAGE, WaitingArguments
from formulary_catalog.server.calls.arguments.run import ApprovalArguments
from formulary_catalog.server.console.route import ConsoleRoute
from formulary_catalog.server.console.security import FORM_TOKEN
from formulary_catalog.server.console.templating import render
from formulary_catalog.server.console.visitor import visitor_of
from formulary_catalog.server.http.errors import CONSOLE_PATH
from formulary_catalog.server.mcp.tools.invocation_tools import INVOKE_TOOL
from formulary_catalog.server.rest.calls import checked_call, recorded_call, services_of

WAITING_PATH = f"{CONSOLE_PATH}/waiting"
_RISKS = {"low": "good", "medium": "waiting", "high": "bad"}

router = APIRouter(route_class=ConsoleRoute)


class _Page(WaitingArguments):
    """The page; `decided` is a run that its visitor has just decided on."""

    decided: str = Field("", max_length=MAX_LABEL_LENGTH)
    decision: str = Field("", max_length=MAX_LABEL_LENGTH)


class _Changes(WaitingArguments):
    """What the page shows that asks for changes: states of runs."""

    shown: tuple[str, ...] = Field((), max_length=MAX_PAGE)


@router.get(WAITING_PATH)
async def waiting(request: Request) -> Response:
    """The runs that wait, the oldest first."""
    _, asked = await checked_call(request, "read.approvals", _Page)
    answer = await services_of(request).runs.waiting(
        namespace=asked.namespace, limit=asked.limit, caller=visitor_of(request).caller
    )
    decided = asked.decided if asked.decision in list(ApprovalDecision) else ""
    return render(
        request,
        "waiting.html",
        title="Waiting",
        decided=decided,
        rejected=asked.decision == ApprovalDecision.REJECT,
        changes=f"{WAITING_PATH}/changes?{urlencode({'namespace': asked.namespace, 'limit': asked.limit})}",
        **_shown(answer),
    )


@router.get(f"{WAITING_PATH}/changes")
async def changes(request: Request) -> Response:
    """What is new to an open page: runs that came, changed or are gone, and the time that is left for the others."""
    _, asked = await checked_call(request, "read.approvals", _Changes)
    answer = await services_of(request).runs.waiting(
        namespace=asked.namespace, limit=asked.limit, caller=visitor_of(request).caller, known=asked.shown
    )
    before = {state.partition(".")[0] for state in asked.shown}
    now = {run.invocation_id for run in answer.approvals}
    return render(
        request,
        "waiting_changes.html",
        gone=sorted(before - now),
        new=[run for run in answer.approvals if run.invocation_id not in before],
        other=[run for run in answer.approvals if run.invocation_id in before and run.state not in asked.shown],
        same=[run for run in answer.approvals if run.state in asked.shown],
        **_shown(answer),
    )


@router.post(f"{WAITING_PATH}/{{invocation_id}}")
async def decide(request: Request, invocation_id: Annotated[str, Path()]) -> Response:
    """Approve or reject a run in the name of the visitor, as REST does."""
    given = {name: value for name, value in request.state.form.items() if name != FORM_TOKEN}
    _, approval = await recorded_call(
        request,
        INVOKE_TOOL.action,
        given=lambda: {"invocation_id": invocation_id, **ApprovalArguments.recordable(given)},
        read=lambda _: ApprovalArguments.read(given),
    )
    answer = await services_of(request).invocations.approve(
        invocation_id,
        decision=ApprovalDecision(approval.decision),
        reason=approval.reason,
        digest=approval.digest,
        caller=visitor_of(request).caller,
    )
    done = urlencode({"decided": answer.invocation_id, "decision": approval.decision})
    return RedirectResponse(f"{WAITING_PATH}?{done}", status_code=303)


def _shown(answer: WaitingRunList) -> dict[str, Any]:
    return {
        "runs": answer.approvals,
        "total": answer.total,
        "risks": _RISKS,
        "approving": str(APPROVE),
        "reading": str(READ_INVOCATIONS),
        "longest_reason": MAX_REASON_LENGTH,
    }
