"""The emergency stop: which halts hold, and the forms to halt and to lift, each with a page that asks once more."""

import asyncio
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from formulary_catalog.domain.access import HALT, LIFT, READ_INVOCATIONS
from formulary_catalog.domain.governance.halting import MAX_REASON, SERVER
from formulary_catalog.edges.console.pages.rules import RULES_PATH
from formulary_catalog.edges.console.route import ConsoleRoute
from formulary_catalog.edges.console.security import FORM_TOKEN
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import checked_call, services_of
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.ruling import HaltArguments, HaltsArguments, LiftArguments

HALTS_PATH = f"{RULES_PATH}/halts"
_CONFIRMED = "confirmed"
_DONE = {
    "": "",
    "halted": "Halted. Runs that end now: {ended}.",
    "known": "A halt set at the database is already in force and stays. Runs that end now: {ended}.",
    "lifted": "Halt lifted: new runs may start.",
    "still": "Halt lifted, but another is still in force there: no run starts.",
    "nothing": "No such halt was set through a server.",
}

router = APIRouter(route_class=ConsoleRoute)


class _Page(HaltsArguments):
    """The page; `done` is what its visitor has just done, and `ended` how many runs that ends."""

    done: Literal["", "halted", "known", "lifted", "still", "nothing"] = ""
    ended: int = Field(0, ge=0)


@router.get(HALTS_PATH)
async def halts(request: Request) -> Response:
    """The halts in force and the forms."""
    _, asked = await checked_call(request, "read.halts", _Page)
    service, caller = services_of(request).halts, visitor_of(request).caller
    answer = await service.in_force(namespace=asked.namespace, caller=caller)
    may_lift = await asyncio.gather(
        *(caller.access.allows(LIFT, namespace=service.deciding(halt.namespace)) for halt in answer.halts)
    )
    everywhere, somewhere = await service.may_halt(caller)
    return render(
        request,
        "halts.html",
        title="Halts",
        found=[
            (halt, halt.source == SERVER and not halt.contract, may, service.deciding(halt.namespace))
            for halt, may in zip(answer.halts, may_lift, strict=True)
        ],
        notes=answer.notes,
        done=_DONE[asked.done].format(ended=asked.ended),
        may_everywhere=everywhere,
        may_somewhere=somewhere,
        deciding=service.deciding(""),
        halting=str(HALT),
        lifting=str(LIFT),
        reading=str(READ_INVOCATIONS),
        longest_reason=MAX_REASON,
    )


@router.post(HALTS_PATH)
async def halt(request: Request) -> Response:
    """Ask once more; then halt, in the name of the visitor."""
    given, confirmed = _fields(request)
    if given.get("scope") == "namespace" and not given.get("namespace", "").strip():
        raise InvalidInput("namespace is empty; name one, or halt everywhere", field="namespace")
    given.pop("scope", "")
    _, asked = await checked_call(request, "halt.refused", HaltArguments, given=given)
    if not confirmed:
        doubts = await services_of(request).halts.doubts(asked.namespace, caller=visitor_of(request).caller)
        return _confirm(request, lifts=False, namespace=asked.namespace, reason=asked.reason, doubts=doubts)
    answer = await services_of(request).halts.halt(
        namespace=asked.namespace, reason=asked.reason, caller=visitor_of(request).caller
    )
    return _back("halted" if answer.halted.source == SERVER else "known", ended=answer.ended_runs)


@router.post(f"{HALTS_PATH}/lift")
async def lift(request: Request) -> Response:
    """Ask once more; then lift a halt, in the name of the visitor."""
    given, confirmed = _fields(request)
    _, asked = await checked_call(request, "halt.refused", LiftArguments, given=given)
    if not confirmed:
        return _confirm(request, lifts=True, namespace=asked.namespace, reason=asked.reason)
    answer = await services_of(request).halts.lift(
        namespace=asked.namespace, reason=asked.reason, caller=visitor_of(request).caller
    )
    if not answer.lifted:
        return _back("nothing")
    return _back("still" if answer.still_holds(asked.namespace) else "lifted")


def _fields(request: Request) -> tuple[dict[str, str], bool]:
    """What the form says, and whether its sender was asked once more."""
    given = {name: str(value) for name, value in request.state.form.items() if name != FORM_TOKEN}
    return given, bool(given.pop(_CONFIRMED, ""))


def _confirm(request: Request, *, lifts: bool, namespace: str, reason: str, doubts: Sequence[str] = ()) -> Response:
    return render(
        request,
        "halts_confirm.html",
        title="Lift the halt?" if lifts else "Halt runs?",
        lifts=lifts,
        namespace=namespace,
        reason=reason,
        doubts=doubts,
        where=f"in namespace {namespace}" if namespace else "everywhere",
    )


def _back(done: str, *, ended: int = 0) -> Response:
    return RedirectResponse(f"{HALTS_PATH}?{urlencode({'done': done, 'ended': ended})}", status_code=303)
