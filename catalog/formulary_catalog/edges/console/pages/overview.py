"""The first page: whether all is well, in four numbers that lead to their pages, then what waits and happened last.

Each number is what its page counts for this visitor; where the visitor may read nothing of it, the page says that
instead of a nought. What is wrong with the catalog or with a record is a number more. Where targets are known without a
cluster, one question leads to the answer for each of them.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from formulary_catalog.domain.access import READ_INVOCATIONS, SEE_WORKFLOWS, USE_CONTEXTS, Caller, Right
from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.domain.reading import TargetAnswer
from formulary_catalog.domain.workflows.requests import ListingRequest
from formulary_catalog.edges.console.pages.incidents import SHOWN_STATES
from formulary_catalog.edges.console.route import ConsoleRoute
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import services_of
from formulary_catalog.errors import FormularyError, NotAllowed
from formulary_catalog.operations.services import Services
from formulary_catalog.services.audit.incidents import OpenIncidents
from formulary_catalog.services.audit.traces import PIECE
from formulary_catalog.services.runs.reading import LATELY, RunsLately
from formulary_catalog.store.workflows.refusals import INVALID

OVERVIEW = f"{CONSOLE_PATH}/overview"
_QUERY = "OOMKilled critical"
_WAITING_RUNS = 5
_INCIDENTS = 5
_EXAMPLES = 3
_ENDED = ("completed", "failed", "timed_out", "cancelled", "halted", "helped", "not_helped", "relapsed")

router = APIRouter(route_class=ConsoleRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number with what it counts; without one, `said` is why. `tone` is that of a badge, plain if all is well."""

    name: str
    number: str = ""
    said: str
    href: str
    tone: str = "plain"

    @property
    def needs_somebody(self) -> bool:
        """Whether a person should look."""
        return self.tone != "plain"


@router.get(OVERVIEW)
async def overview(request: Request) -> Response:
    """Four numbers, what waits, the incidents that changed last, and one question for several targets."""
    services, caller = services_of(request), visitor_of(request).caller
    runs, opened, uncovered, refused, waiting, incidents = await asyncio.gather(
        services.runs.lately(caller),
        services.incidents.open(caller),
        _uncovered(services, caller),
        _refused(services, caller),
        services.runs.waiting(limit=_WAITING_RUNS, caller=caller),
        services.traces.page(of_incidents=True, limit=_INCIDENTS, caller=caller),
    )
    altered = await services.traces.altered(incidents.traces)
    tiles = [_waiting(runs), _open(opened), _helped(runs), uncovered, *refused, *_of_records(altered)]
    return render(
        request,
        "overview.html",
        title="Overview",
        tiles=tiles,
        waiting=waiting.approvals,
        page=incidents,
        notes=list(dict.fromkeys([*runs.notes, *incidents.notes])),
        altered=altered,
        newest=PIECE if any(each.events > PIECE for each in incidents.traces) else 0,
        own=OWN_TRACE,
        query=_QUERY,
        examples=await _examples(services, caller),
        **SHOWN_STATES,
    )


def _waiting(runs: RunsLately) -> Tile:
    name, href = "Waiting for a person", f"{CONSOLE_PATH}/waiting"
    if not runs.may_read:
        return Tile(name=name, said=_not_known(READ_INVOCATIONS), href=href)
    return Tile(
        name=name,
        number=str(runs.waiting),
        said="approve or reject" if runs.waiting else "nothing to decide",
        href=href,
        tone="waiting" if runs.waiting else "plain",
    )


def _open(opened: OpenIncidents) -> Tile:
    name, href = "Open incidents", f"{CONSOLE_PATH}/incidents?of=open"
    if not opened.may_read:
        return Tile(name=name, said=_not_known(USE_CONTEXTS), href=href)
    return Tile(
        name=name,
        number=str(opened.firing + opened.analyses),
        said=f"alerts that fire: {opened.firing}; AIAnalysis objects: {opened.analyses}",
        href=href,
        tone="waiting" if opened.firing else "plain",
    )


def _helped(runs: RunsLately) -> Tile:
    name, href = "Runs that helped", f"{CONSOLE_PATH}/incidents?since={LATELY}d"
    if not runs.may_read:
        return Tile(name=name, said=_not_known(READ_INVOCATIONS), href=href)
    ended = {state: number for state, number in runs.states.items() if state in _ENDED}
    helped = ended.pop("helped", 0)
    words: Mapping[str, str] = SHOWN_STATES["states"]
    others = "".join(f", {number} {words[state]}" for state, number in ended.items())
    total = helped + sum(ended.values())
    if not total:
        return Tile(name=name, number="none", said=f"no run ended in {LATELY} days", href=href)
    # What failed days ago is no reason to look now: what is broken still is an open incident.
    return Tile(name=name, number=f"{helped} of {total}", said=f"of those that ended, {LATELY} days{others}", href=href)


async def _uncovered(services: Services, caller: Caller) -> Tile:
    name, href = "Alerts without a remedy", f"{CONSOLE_PATH}/coverage"
    try:
        totals, left = await services.coverage.of_rules(caller=caller)
    except NotAllowed:
        return Tile(name=name, said=_not_known(SEE_WORKFLOWS), href=href)
    if totals is None:
        return Tile(name=name, said="no alerting rule that you may see is known", href=href)
    return Tile(
        name=name,
        number=str(totals.none),
        said=f"of {totals.number + left} that are known" + (f", {left} not compared yet" if left else ""),
        href=href,
    )


async def _refused(services: Services, caller: Caller) -> list[Tile]:
    """The objects that the operator refused, if there are any."""
    try:
        found = await services.refused.page(ListingRequest(status=INVALID, limit=1), caller=caller)
    except NotAllowed:
        return []
    if not found.total:
        return []
    href, said = f"{CONSOLE_PATH}/catalog?status={INVALID}", "not served; see why"
    return [Tile(name="Refused objects", number=str(found.total), said=said, href=href, tone="bad")]


def _of_records(altered: list[str]) -> list[Tile]:
    """The incidents below whose record is not as it was written, if there are any."""
    if not altered:
        return []
    href, said = f"{CONSOLE_PATH}/incidents", "not as recorded; see below"
    return [Tile(name="Altered records", number=str(len(altered)), said=said, href=href, tone="bad")]


def _not_known(right: Right) -> str:
    return f"not known: you may {right} in no namespace that Formulary knows of"


async def _examples(services: Services, caller: Caller) -> list[tuple[TargetAnswer, str]]:
    """Targets of different owners with what these demand, and where the question is answered for each."""
    found: list[tuple[TargetAnswer, str]] = []
    for reference in services.parts.targets.examples():
        if len(found) == _EXAMPLES:
            break
        try:
            target = await services.targets.read(reference, caller=caller)
        except FormularyError:  # a namespace that lacks a label: nothing could be answered for it
            continue
        asked = urlencode({"query": _QUERY, "target": target.target})
        found.append((target, f"{CONSOLE_PATH}/search?{asked}#answer"))
    return found if len(found) > 1 else []
