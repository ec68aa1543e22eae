"""The first page: the runs that wait for a person, what each would do, and the forms that decide on them.

An open page asks for changes every few seconds and gets what is new alone, so that nothing moves under who types.
"""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from formulary_catalog.domain.access import APPROVE, READ_INVOCATIONS
from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.reading import WaitingRunList
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.edges.console.route import ConsoleRoute, is_by_htmx
from formulary_catalog.edges.console.security import FORM_TOKEN
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import checked_call, recorded_call, services_of
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.reading import MAX_PAGE, WaitingArguments
from formulary_catalog.operations.runs import INVOKE, ApprovalArguments
from formulary_catalog.services.runs.request import MAX_REASON_LENGTH

WAITING_PATH = f"{CONSOLE_PATH}/waiting"
DECIDING: dict[str, Any] = {
    "risks": {"low": "good", "medium": "waiting", "high": "bad", "critical": "bad"},
    "severities": {"critical": "bad", "high": "waiting"},
    "approving": str(APPROVE),
    "longest_reason": MAX_REASON_LENGTH,
}
"""What every page needs that shows cards of runs."""

router = APIRouter(route_class=ConsoleRoute)


class _Asked(WaitingArguments):
    """What the page is asked for; `only` is the run that a link leads to."""

    only: str = Field("", max_length=MAX_LABEL_LENGTH)


class _Page(_Asked):
    """The page; `decided` is a run that its visitor has just decided on, of the trace `trace`."""

    decided: str = Field("", max_length=MAX_LABEL_LENGTH)
    decision: str = Field("", max_length=MAX_LABEL_LENGTH)
    trace: str = Field("", max_length=MAX_LABEL_LENGTH)


class _Changes(_Asked):
    """What the page shows that asks for changes: states of runs, and how many wait in all."""

    shown: tuple[str, ...] = Field((), max_length=MAX_PAGE)
    total: int = Field(0, ge=0)


@router.get(WAITING_PATH)
async def waiting(request: Request) -> Response:
    """The runs that wait, the oldest first."""
    _, asked = await checked_call(request, "read.approvals", _Page)
    answer = await services_of(request).runs.waiting(
        namespace=asked.namespace,
        only=asked.only,
        limit=asked.limit,
        after=asked.cursor,
        caller=visitor_of(request).caller,
    )
    decided = asked.decided if asked.decision in list(ApprovalDecision) else ""
    return render(
        request,
        "waiting.html",
        title="Waiting",
        decided=decided,
        decided_trace=asked.trace,
        rejected=asked.decision == ApprovalDecision.REJECT,
        changes=_address(f"{WAITING_PATH}/changes", asked, cursor=asked.cursor),
        **_shown(answer, asked=asked),
    )


@router.get(f"{WAITING_PATH}/changes")
async def changes(request: Request) -> Response:
    """What is new to an open page: runs that came, changed or are gone, and the time that is left for the others."""
    _, asked = await checked_call(request, "read.approvals", _Changes)
    answer = await services_of(request).runs.waiting(
        namespace=asked.namespace,
        only=asked.only,
        limit=asked.limit,
        after=asked.cursor,
        caller=visitor_of(request).caller,
        known=asked.shown,
    )
    before = {state.partition(".")[0] for state in asked.shown}
    now = {run.invocation_id for run in answer.approvals}
    gone, new = before - now, now - before
    return render(
        request,
        "waiting_changes.html",
        recounted=bool(gone or new or answer.total != asked.total),
        gone=sorted(gone),
        new=[run for run in answer.approvals if run.invocation_id in new],
        other=[run for run in answer.approvals if run.invocation_id in before and run.state not in asked.shown],
        same=[run for run in answer.approvals if run.state in asked.shown],
        **_shown(answer, asked=asked),
    )


@router.get(f"{WAITING_PATH}/{{invocation_id}}")
async def one(invocation_id: Annotated[str, Path()]) -> Response:
    """Where Events and notes lead to: the page with that run alone, however many wait."""
    return RedirectResponse(f"{WAITING_PATH}?{urlencode({'only': invocation_id})}", status_code=303)


@router.post(f"{WAITING_PATH}/{{invocation_id}}")
async def decide(request: Request, invocation_id: Annotated[str, Path()]) -> Response:
    """Approve or reject a run in the name of the visitor, as REST does. An open page gets what has changed of it."""
    given = {name: value for name, value in request.state.form.items() if name != FORM_TOKEN}
    _, approval = await recorded_call(
        request,
        INVOKE.action,
        given=lambda: {"invocation_id": invocation_id, **ApprovalArguments.recordable(given)},
        read=lambda _: _decided(given),
    )
    answer = await services_of(request).invocations.approve(
        invocation_id,
        decision=ApprovalDecision(approval.decision),
        reason=approval.reason,
        digest=approval.digest,
        caller=visitor_of(request).caller,
    )
    if is_by_htmx(request):
        rejected = ApprovalDecision(approval.decision) is ApprovalDecision.REJECT
        return render(
            request,
            "waiting_decided.html",
            decided=answer.invocation_id,
            decided_trace=answer.trace_id,
            rejected=rejected,
        )
    done = urlencode({"decided": answer.invocation_id, "decision": approval.decision, "trace": answer.trace_id})
    return RedirectResponse(f"{WAITING_PATH}?{done}", status_code=303)


def _address(path: str, asked: _Asked, *, cursor: str) -> str:
    question = {"namespace": asked.namespace, "only": asked.only, "limit": asked.limit, "cursor": cursor}
    return f"{path}?{urlencode({name: value for name, value in question.items() if value})}"


def _shown(answer: WaitingRunList, *, asked: _Asked) -> dict[str, Any]:
    """What both the page and its changes show; `later` is the page of those that came after these."""
    return {
        "runs": answer.approvals,
        "total": answer.total,
        "may_read": answer.may_read,
        "only": asked.only,
        "all": WAITING_PATH,
        "notes": answer.notes,
        "is_first": not asked.cursor,
        "first": _address(WAITING_PATH, asked, cursor=""),
        "later": _address(WAITING_PATH, asked, cursor=answer.next_cursor) if answer.next_cursor else "",
        "reading": str(READ_INVOCATIONS),
        **DECIDING,
    }


def _decided(given: Mapping[str, str]) -> ApprovalArguments:
    """What the form says. On the page nobody approves what they could not see."""
    approval = ApprovalArguments.read(given)
    if ApprovalDecision(approval.decision) is ApprovalDecision.APPROVE and not approval.digest:
        raise InvalidInput(
            "what would run was not shown; load the page again and approve what it shows then", field="digest"
        )
    return approval
