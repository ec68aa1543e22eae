"""The first page: whether all is well, in numbers that each lead to their page, then what happened last.

Each number is what its page counts for this visitor; where the visitor may read nothing of it, the page says that
instead of a nought. Where targets are known without a cluster, one question leads to the answer for each of them.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from formulary_catalog.domain.access import READ_INVOCATIONS, SEE_WORKFLOWS, Caller
from formulary_catalog.domain.answers.browsing import StatisticsAnswer
from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.domain.reading import TargetAnswer, TracePage
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.workflows.requests import ListingRequest
from formulary_catalog.edges.console.pages.incidents import SHOWN_STATES
from formulary_catalog.edges.console.route import ConsoleRoute
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import services_of
from formulary_catalog.errors import FormularyError, NotAllowed
from formulary_catalog.operations.services import Services
from formulary_catalog.services.audit.traces import PIECE
from formulary_catalog.services.runs.reading import RunsToday
from formulary_catalog.store.workflows.refusals import INVALID

OVERVIEW = f"{CONSOLE_PATH}/overview"
_QUERY = "OOMKilled critical"
_DAY = timedelta(days=1)
_INCIDENTS = 5
_EXAMPLES = 3
_FAILED = frozenset({"failed", "timed_out", "halted", "not_helped", "relapsed"})
_NOT_SERVED = ("Pending", "Disabled")

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
    """Numbers of now and of the last day, the incidents that changed last, and one question for several targets."""
    services, caller = services_of(request), visitor_of(request).caller
    runs, catalog, incidents = await asyncio.gather(
        services.runs.today(caller),
        _catalog(services, caller),
        services.traces.page(of_incidents=True, limit=_INCIDENTS, caller=caller),
    )
    altered = await services.traces.altered(incidents.traces)
    tiles = [*_of_runs(runs), *_of_catalog(*catalog), *_of_records(incidents, altered)]
    return render(
        request,
        "overview.html",
        title="Overview",
        tiles=tiles,
        page=incidents,
        notes=list(dict.fromkeys([*runs.notes, *incidents.notes])),
        altered=altered,
        own=OWN_TRACE,
        query=_QUERY,
        examples=await _examples(services, caller),
        **SHOWN_STATES,
    )


async def _catalog(services: Services, caller: Caller) -> tuple[StatisticsAnswer | None, int]:
    """The catalog in numbers, and how many objects are refused; None for who may see no workflow."""
    try:
        numbers = await services.browsing.statistics(
            context=ContextReference(), caller=caller, browsing=True, searched=_DAY
        )
        refused = await services.refused.page(ListingRequest(status=INVALID, limit=1), caller=caller)
    except NotAllowed:
        return None, 0
    return numbers, refused.total


def _of_runs(runs: RunsToday) -> Iterator[Tile]:
    waiting, ended = f"{CONSOLE_PATH}/waiting", f"{CONSOLE_PATH}/incidents?since=24h"
    if not runs.may_read:
        said = f"not known: you may {READ_INVOCATIONS} in no namespace"
        yield Tile(name="Waiting for a person", said=said, href=waiting)
        return
    yield Tile(
        name="Waiting for a person",
        number=str(runs.waiting),
        said="approve or reject" if runs.waiting else "nothing to decide",
        href=waiting,
        tone="waiting" if runs.waiting else "plain",
    )
    states: Mapping[str, str] = SHOWN_STATES["states"]
    yield Tile(
        name="Runs of the last day",
        number=str(sum(runs.states.values())),
        said=", ".join(f"{number} {states[state]}" for state, number in runs.states.items()) or "no runs",
        href=ended,
        tone="bad" if _FAILED & runs.states.keys() else "plain",
    )


def _of_catalog(numbers: StatisticsAnswer | None, refused: int) -> Iterator[Tile]:
    catalog = f"{CONSOLE_PATH}/catalog"
    if numbers is None:
        yield Tile(name="Workflows", said=f"not known: you may {SEE_WORKFLOWS} in no namespace", href=catalog)
        return
    others = [(number, status.lower()) for status in _NOT_SERVED if (number := numbers.by_status.get(status, 0))]
    others += [(refused, INVALID.lower())] if refused else []
    yield Tile(
        name="Workflows",
        number=str(numbers.total),
        said=", ".join(["active", *(f"{number} {status}" for number, status in others)]),
        href=f"{catalog}?status={INVALID}" if refused else catalog,
        tone="bad" if refused else "plain",
    )
    asked = sum(numbers.searches.by_mode.values())
    unanswered = round(asked * (numbers.searches.weak_share or 0.0))
    yield Tile(
        name="Searches of the last day",
        number=str(asked),
        said=f"{unanswered} below a confidence of 0.5"
        if unanswered
        else "each with an answer"
        if asked
        else "no searches",
        href=f"{CONSOLE_PATH}/coverage",
    )


def _of_records(incidents: TracePage, altered: list[str]) -> Iterator[Tile]:
    shown = len(incidents.traces)
    if not shown:
        return
    newest = (
        f"; of long ones, the newest {PIECE} events" if any(each.events > PIECE for each in incidents.traces) else ""
    )
    yield Tile(
        name="Records verified",
        number=f"{shown - len(altered)} of {shown}",
        said="not as recorded; see below" if altered else f"of the incidents below, as they were written{newest}",
        href=f"{CONSOLE_PATH}/incidents",
        tone="bad" if altered else "plain",
    )


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
