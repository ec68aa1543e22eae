"""Coverage: signals and alerts against remedies, what was asked in vain, stale and duplicate workflows."""

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.datastructures import FormData

from formulary_catalog.domain import console_address
from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE
from formulary_catalog.domain.coverage.alerts import NO_REMEDY, ignored_by_rules, portions
from formulary_catalog.domain.coverage.answers import CoverageAnswer
from formulary_catalog.domain.coverage.states import (
    SEVEREST_FIRST,
    UNLIKELY,
    in_words,
    joined,
    with_ignored,
    with_notes,
)
from formulary_catalog.edges.console.route import ConsoleRoute, answer_to, asked, file_text
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.http.middleware import MAX_BODY_BYTES
from formulary_catalog.edges.rest.calls import services_of
from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.rule_files import alerts_in_text, ignored_in_text
from formulary_catalog.operations.coverage import COVERAGE, DUPLICATES, MAX_LINES, STALE, LinesArguments

VIEWS = {"": "Signals and queries", "/stale": "Stale workflows", "/duplicates": "Duplicates"}
"""The views by the end of their paths."""
_LINES = 300
_KINDS = {"covered": "good", "declared_only": "waiting", "weak": "waiting", "none": "bad"}
"""How the badge of a state looks."""

router = APIRouter(route_class=ConsoleRoute)


class CoverageLines(LinesArguments):
    """The page: most catalogs fit on one, so that what has no remedy is before all else."""

    limit: int = Field(_LINES, ge=1, le=MAX_LINES, description="How many to show.", examples=[20])


@router.get(console_address.COVERAGE)
async def coverage(request: Request) -> Response:
    """The signals that the catalog knows, the alerts of the cluster, and the form to compare alerts of one's own."""
    wanted = await asked(request, COVERAGE.action, CoverageLines)
    answer = await answer_to(request, COVERAGE, arguments=wanted)
    return _page(request, answer=answer, of_rules=False, is_first=not wanted.cursor)


@router.post(console_address.COVERAGE)
async def compare(request: Request) -> Response:
    """The alerts of a rule file that was pasted or uploaded. Nothing is stored."""
    form: FormData = request.state.form
    rules, ignore = str(form.get("rules", "")), str(form.get("ignore", ""))
    try:
        rules = (await file_text(form) or rules).replace("\r\n", "\n")
        found = alerts_in_text(rules, name="rules")
        listed = ignored_in_text(ignore, name="ignored alerts") if ignore.strip() else {}
    except InvalidInput as error:
        return _page(request, answer=None, of_rules=True, rules=rules, ignore=ignore, problem=str(error), status=400)
    caller = visitor_of(request).caller
    service = services_of(request).coverage
    answer = joined([await service.of_alerts(some, caller=caller) for some in portions(found.alerts)])
    answer = with_notes(with_ignored(answer, ignored_by_rules(found.alerts) | listed), found.notes)
    return _page(request, answer=answer, of_rules=True, rules=rules, ignore=ignore)


@router.get(f"{console_address.COVERAGE}/stale")
async def stale(request: Request) -> Response:
    """Workflows that may be of no use."""
    answer = await answer_to(request, STALE)
    return render(request, "coverage_stale.html", title="Stale workflows", answer=answer, views=VIEWS)


@router.get(f"{console_address.COVERAGE}/duplicates")
async def duplicates(request: Request) -> Response:
    """Pairs of workflows that say nearly the same."""
    answer = await answer_to(request, DUPLICATES)
    return render(request, "coverage_duplicates.html", title="Duplicates", answer=answer, views=VIEWS)


def _page(
    request: Request,
    *,
    answer: CoverageAnswer | None,
    of_rules: bool,
    is_first: bool = True,
    rules: str = "",
    ignore: str = "",
    problem: str = "",
    status: int = 200,
) -> Response:
    return render(
        request,
        "coverage.html",
        status=status,
        title="Coverage",
        answer=answer,
        of_rules=of_rules,
        is_first=is_first,
        rules=rules,
        ignore=ignore,
        problem=problem,
        views=VIEWS,
        kinds=_KINDS,
        states=SEVEREST_FIRST[::-1],
        in_words=in_words,
        sure=WEAK_CONFIDENCE,
        unlikely=UNLIKELY,
        no_remedy=NO_REMEDY,
        kibibytes=MAX_BODY_BYTES // 1024,
    )
