"""Rules: the contracts in force and how often each rule counted, and a contract that is tried before it is applied."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from formulary_catalog.domain.access import READ_CONTRACTS
from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.domain.governance.answers import RehearsalAnswer
from formulary_catalog.edges.console.route import ConsoleRoute, file_text
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.http.middleware import TRIED_PATH
from formulary_catalog.edges.rest.calls import checked_call, recorded_call, services_of
from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.manifests import MAX_CHARACTERS
from formulary_catalog.operations.arguments.reading import ContractsArguments
from formulary_catalog.operations.arguments.ruling import RehearseArguments
from formulary_catalog.services.governance.rehearsing import DEFAULT_SINCE
from formulary_catalog.services.runs.reading import USE_DAYS

RULES_PATH = f"{CONSOLE_PATH}/rules"
_EFFECTS = {
    "ALLOW": "good",
    "REQUIRE_EVIDENCE": "waiting",
    "REQUIRE_APPROVAL": "waiting",
    "DEGRADE": "waiting",
    "DENY": "bad",
    "HALT": "bad",
}
_HEADINGS = {
    "allowed": "Newly allowed",
    "denied": "Newly denied",
    "waiting": "Newly waiting for a person or a selection",
    "dry_run": "Newly a dry run",
}
_OUTCOMES = {
    "ALLOW": ("allowed", "good"),
    "AWAIT": ("waits", "waiting"),
    "DEGRADE": ("dry run", "waiting"),
    "BLOCK": ("denied", "bad"),
    "HALT": ("halted", "bad"),
}

router = APIRouter(route_class=ConsoleRoute)


@router.get(RULES_PATH)
async def rules(request: Request) -> Response:
    """The contracts in force, and the form to try one."""
    _, asked = await checked_call(request, "read.contracts", ContractsArguments)
    answer = await services_of(request).runs.contracts(namespace=asked.namespace, caller=visitor_of(request).caller)
    return render(
        request,
        "rules.html",
        title="Rules",
        contracts=[(each, list(zip(each.rules, each.use, strict=True))) for each in answer.contracts],
        notes=answer.notes,
        effects=_EFFECTS,
        matches=_matches,
        days=USE_DAYS,
        reading=str(READ_CONTRACTS),
        **_form(),
    )


@router.post(TRIED_PATH)
async def tried(request: Request) -> Response:
    """What the contract of the form would have changed; nothing is put in force."""
    form: FormData = request.state.form
    given = {name: value for name in ("manifest", "namespace", "since") if isinstance(value := form.get(name), str)}
    rehearsing = services_of(request).rehearsing
    try:
        manifest = await file_text(form) or given.get("manifest", "")
        given["manifest"] = manifest.replace("\r\n", "\n")  # as browsers send lines, and count them as one character
        _, (asked, entry) = await recorded_call(
            request,
            "read.rehearsal",
            given=lambda: RehearseArguments.recordable(given),
            read=lambda _: RehearseArguments.with_contract(given, shared_namespace=rehearsing.shared_namespace),
        )
        answer = await rehearsing.rehearse(entry, since=asked.since, caller=visitor_of(request).caller)
    except InvalidInput as error:
        return _tried(request, given, status=400, problem=str(error))
    return _tried(request, given, answer=answer)


def _matches(rule: Mapping[str, Any]) -> str:
    """What a rule matches, as its manifest has it."""
    members = [
        f"{name}: {', '.join(value) if isinstance(value, list) else value if isinstance(value, str) else _spans(value)}"
        for name, value in rule.get("match", {}).items()
    ]
    return "; ".join(members) or "everything"


def _spans(window: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {' '.join(value) if isinstance(value, list) else value}" for name, value in window.items()
    )


def _tried(
    request: Request,
    given: Mapping[str, str],
    *,
    answer: RehearsalAnswer | None = None,
    problem: str = "",
    status: int = 200,
) -> Response:
    groups = [
        (heading, getattr(answer.changed, change), [run for run in answer.changes if run.change == change])
        for change, heading in (_HEADINGS.items() if answer is not None else ())
        if answer is not None and getattr(answer.changed, change)
    ]
    return render(
        request,
        "rules_tried.html",
        status=status,
        title="Check of a contract",
        answer=answer,
        groups=groups,
        outcomes=_OUTCOMES,
        **_form(problem=problem, **given),
    )


def _form(*, manifest: str = "", namespace: str = "", since: str = DEFAULT_SINCE, problem: str = "") -> dict[str, Any]:
    """What the form shows."""
    return {
        "manifest": manifest,
        "namespace": namespace,
        "since": since,
        "problem": problem,
        "most": MAX_CHARACTERS,
    }
