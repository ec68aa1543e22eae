"""The catalog: a list that can be narrowed, one workflow in full, and two of its versions side by side."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import Field

from formulary_catalog.domain.answers.browsing import (
    FacetValue,
    RefusedList,
    RelatedEntity,
    VersionDifference,
)
from formulary_catalog.domain.answers.catalog import WorkflowDetails, WorkflowList, WorkflowSummary
from formulary_catalog.domain.console_address import CONSOLE_PATH, workflow_address
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.stored import success_text
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.workflows.labels import WILDCARD
from formulary_catalog.domain.workflows.relations import Direction, Relation
from formulary_catalog.domain.workflows.requests import STATUSES, RelatedRequest
from formulary_catalog.domain.workflows.skill import FILE, workflow_skill
from formulary_catalog.edges.console.route import ConsoleRoute, asked, filled
from formulary_catalog.edges.console.templating import render
from formulary_catalog.edges.console.visitor import visitor_of
from formulary_catalog.edges.rest.calls import services_of
from formulary_catalog.errors import NotFound
from formulary_catalog.operations.arguments.browsing import MAX_PAGE, PageArguments
from formulary_catalog.operations.arguments.catalog import DetailsArguments
from formulary_catalog.store.workflows.refusals import INVALID

CATALOG = f"{CONSOLE_PATH}/catalog"
FACETS = {
    "status": "State",
    "namespace": "Namespace",
    "signal_type": "Signal",
    "risk_level": "Risk",
    "action_type": "Action",
}
"""What narrows the list, by the field of the address, and what it is called."""
_DAYS = 90
"""So far back it is shown how runs ended."""
_LINES = 50
_NEIGHBOURS = 40
_NO_INCIDENT = ContextReference()
_RELATION_WORDS = {
    Relation.REQUIRES: "requires",
    Relation.ESCALATES_TO: "escalates to",
    Relation.ROLLBACK_OF: "rolls back",
    Relation.SUPERSEDES: "supersedes",
    Relation.PREVIOUS_VERSION: "was before",
    Relation.MENTIONS: "mentions",
    Relation.ANSWERS_SIGNAL: "answers",
    Relation.SAME_ACTION: "has the action of",
}
_NEAR = tuple(each for each in Relation if each not in (Relation.PREVIOUS_VERSION, Relation.SAME_ACTION))
"""Other versions have a list of their own, and what has the same action is a list of the catalog."""

router = APIRouter(route_class=ConsoleRoute)


class CatalogArguments(PageArguments):
    """The same list as over REST, in pages that people read."""

    limit: int = Field(_LINES, ge=1, le=MAX_PAGE, description="How many to show.", examples=[20])


class WorkflowArguments(DetailsArguments):
    """A workflow, and the version that it is compared with."""

    against: str = Field("", max_length=MAX_LABEL_LENGTH, description="Another version.", examples=["1.0.0"])


@router.get(CATALOG)
async def catalog(request: Request) -> Response:
    """The visible workflows in name order, or the refused objects, with what narrows the list and how many remain."""
    wanted = await asked(request, "list", CatalogArguments)
    services, caller = services_of(request), visitor_of(request).caller
    facets: Mapping[str, Sequence[FacetValue]]
    is_refused = wanted.status == INVALID
    if is_refused:
        page: WorkflowList | RefusedList = await services.refused.page(wanted.request, caller=caller)
        facets = (await services.listing.facets(wanted.request, caller=caller)).facets
    else:
        found = await services.listing.faceted(wanted.request, caller=caller)
        page, facets = found.page, found.facets
    given = filled(request)
    return render(
        request,
        "catalog.html",
        title="Catalog",
        page=page,
        is_refused=is_refused,
        facets=[(field, label, _values(field, facets[field])) for field, label in FACETS.items()],
        chosen={field: getattr(wanted.request, field) for field in FACETS},
        text=wanted.text,
        narrowed={field: given[field] for field in FACETS if field in given},
        is_further=bool(wanted.cursor),
        line_address=_line_address,
    )


@router.get(f"{CATALOG}/{{workflow_id:path}}/{FILE}")
async def skill(request: Request, workflow_id: str) -> Response:
    """The workflow as a skill that agents can load."""
    details = await _details(request, await asked(request, "details", DetailsArguments))
    return _file(workflow_skill(details).text, media_type="text/markdown; charset=utf-8", name=FILE)


@router.get(f"{CATALOG}/{{workflow_id:path}}/details.json")
async def details_file(request: Request, workflow_id: str) -> Response:
    """The workflow as the API returns it."""
    details = await _details(request, await asked(request, "details", DetailsArguments))
    return _file(details.model_dump_json(indent=2), media_type="application/json", name="details.json")


@router.get(f"{CATALOG}/{{workflow_id:path}}")
async def workflow(request: Request, workflow_id: str) -> Response:
    """One workflow: when to use it, what it does, what came of it, and what it is connected with."""
    wanted = await asked(request, "details", WorkflowArguments)
    services, caller = services_of(request), visitor_of(request).caller
    details = await _details(request, wanted)
    impact = await services.relations.impact(details.version_id, context=_NO_INCIDENT, caller=caller, browsing=True)
    around = RelatedRequest(entity=details.version_id, relations=_NEAR, limit=_NEIGHBOURS)
    ended = await services.runs.outcomes(days=_DAYS, by="week", workflow_id=details.version_id, caller=caller)
    related = await services.relations.related(around, context=_NO_INCIDENT, caller=caller, browsing=True)
    difference: VersionDifference | None = None
    problem = ""
    if wanted.against:
        try:
            difference = await services.versions.difference(details.version_id, wanted.against, caller=caller)
        except NotFound as error:
            problem = str(error)
    name = _name(details)
    return render(
        request,
        "workflow.html",
        title=details.title,
        workflow=details,
        name=name,
        address=workflow_address(name),
        pinned=workflow_address(f"{name}@{details.version}"),
        impact=impact,
        helped=impact.success_rate
        and success_text(impact.success_rate, impact.success_interval, runs=impact.runs_counted),
        ended=ended,
        related=[_neighbour(each) for each in related.related],
        related_total=related.total,
        difference=difference,
        problem=problem,
        against=wanted.against,
        query=_query(details),
    )


def _values(facet: str, found: Sequence[FacetValue]) -> list[tuple[str, int | None]]:
    """Values of a facet and their counts. States are all shown; of one that is not stored there is no count."""
    counts: dict[str, int | None] = {each.value: each.count for each in found}
    return [(status, counts.get(status)) for status in STATUSES] if facet == "status" else list(counts.items())


def _name(shown: WorkflowSummary | WorkflowDetails) -> str:
    """Namespace and name, also where the name alone is its id."""
    return f"{shown.namespace}/{shown.uri.rpartition('/')[2].partition('@')[0]}"


def _line_address(line: WorkflowSummary) -> str:
    """The page of a line; none for one that is suspended, which is not to be read."""
    if line.status == "Disabled":
        return ""
    name = _name(line)
    return workflow_address(name if line.status in ("Active", "Pending") else f"{name}@{line.version}")


async def _details(request: Request, wanted: DetailsArguments) -> WorkflowDetails:
    return await services_of(request).catalog.details(
        wanted.workflow_id,
        version=wanted.version,
        search_id=wanted.search_id,
        context=ContextReference(target=wanted.target_reference),
        caller=visitor_of(request).caller,
        browsing=True,
    )


def _neighbour(each: RelatedEntity) -> dict[str, Any]:
    """A line of the list: where it leads to, and how it is connected in words."""
    linked = each.uri.removeprefix("workflow://") if each.uri else ""
    return {
        "name": each.name,
        "address": workflow_address(linked) if linked else f"{CATALOG}?signal_type={quote(each.name, safe='')}",
        "is_incoming": each.direction == Direction.INCOMING,
        "words": _RELATION_WORDS[Relation(each.relation)],
    }


def _query(details: WorkflowDetails) -> str:
    """What somebody would ask who needs this workflow."""
    signals = [each for each in details.signal_types if each != WILDCARD]
    return " ".join([*signals[:1], details.title])


def _file(text: str, *, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)
