"""Browsing over REST: pages and what narrows them, relations, names, impact, sections, versions and numbers.

People and the command line read it; a call needs no incident, and one that it names still constrains the answer.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from formulary_catalog.domain.answers.browsing import (
    FacetsAnswer,
    ImpactAnswer,
    NamesAnswer,
    RefusedList,
    RelatedPage,
    SectionAnswer,
    StatisticsAnswer,
    VersionDifference,
)
from formulary_catalog.domain.answers.catalog import WorkflowList
from formulary_catalog.operations.arguments.browsing import (
    DifferenceArguments,
    FacetsArguments,
    ImpactArguments,
    NameArguments,
    NoArguments,
    PageArguments,
    RefusedArguments,
    RelatedPageArguments,
    SectionArguments,
)
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.rest.calls import PREFIX, Guarded, answered, checked_call, services_of
from formulary_catalog.server.rest.openapi import error_responses, operation, query_parameters

_WorkflowId = Annotated[str, Path(description="`name`, `namespace/name`, `name@version` or a version id.")]

router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["workflows"])


@router.get(
    "/workflows",
    operation_id="list_workflows",
    summary="List workflows",
    response_model=WorkflowList,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(PageArguments)),
)
async def list_workflows(request: Request) -> Response:
    """The visible workflows in name order."""
    context, asked = await checked_call(request, "list", PageArguments)
    listing = services_of(request).listing
    return answered(await listing.page(asked.request, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/facets",
    operation_id="get_facets",
    summary="List the filters of the list of workflows",
    response_model=FacetsAnswer,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(FacetsArguments), of_incident=False),
)
async def get_facets(request: Request) -> Response:
    """The values of each filter, and how many workflows the list has with each."""
    _, asked = await checked_call(request, "read.facets", FacetsArguments)
    return answered(await services_of(request).listing.facets(asked.request, caller=caller_of(request)))


@router.get(
    "/refused",
    operation_id="list_refused",
    summary="List the objects that the operator refused",
    response_model=RefusedList,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(RefusedArguments), of_incident=False),
)
async def list_refused(request: Request) -> Response:
    """Objects of the cluster that are not in the catalog as they are, each with the reason and the next step."""
    _, asked = await checked_call(request, "read.refused", RefusedArguments)
    return answered(await services_of(request).refused.page(asked.request, caller=caller_of(request)))


@router.get(
    "/workflows/{entity:path}/related",
    operation_id="get_related",
    summary="Read what is connected with a workflow, a signal type or an action type",
    response_model=RelatedPage,
    responses=error_responses(404),
    openapi_extra=operation(query=query_parameters(RelatedPageArguments, in_path=("entity",))),
)
async def get_related(
    request: Request,
    entity: Annotated[str, Path(description="A workflow in any form of its name, a signal type or an action type.")],
) -> Response:
    """Workflows, signals and actions that are connected with it, the nearest first."""
    context, asked = await checked_call(request, "read.related", RelatedPageArguments)
    relations = services_of(request).relations
    return answered(await relations.related(asked.request, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/workflows/{workflow_id:path}/impact",
    operation_id="get_impact",
    summary="Read what would be missed without a workflow",
    response_model=ImpactAnswer,
    responses=error_responses(404),
    openapi_extra=operation(),
)
async def get_impact(request: Request, workflow_id: _WorkflowId) -> Response:
    """What leads to the workflow, which signals only it answers, and its contracts, runs and searches."""
    context, asked = await checked_call(request, "read.impact", ImpactArguments)
    relations = services_of(request).relations
    return answered(
        await relations.impact(asked.workflow_id, context=context, caller=caller_of(request), browsing=True)
    )


@router.get(
    "/workflows/{workflow_id:path}/sections/{section}",
    operation_id="get_section",
    summary="Read one section of a workflow",
    response_model=SectionAnswer,
    responses=error_responses(404),
    openapi_extra=operation(),
)
async def get_section(
    request: Request,
    workflow_id: _WorkflowId,
    section: Annotated[str, Path(description="Such as `steps` or `when-not-to-use`.")],
) -> Response:
    """The section as a text, or as a list of items."""
    context, asked = await checked_call(request, "read.section", SectionArguments)
    browsing = services_of(request).browsing
    found = await browsing.section(
        asked.workflow_id, asked.section, context=context, caller=caller_of(request), browsing=True
    )
    return answered(found)


@router.get(
    "/workflows/{workflow_id:path}/difference",
    operation_id="get_difference",
    summary="Compare two versions of a workflow",
    response_model=VersionDifference,
    responses=error_responses(404),
    openapi_extra=operation(query=query_parameters(DifferenceArguments, in_path=("workflow_id",)), of_incident=False),
)
async def get_difference(request: Request, workflow_id: _WorkflowId) -> Response:
    """Their manifests side by side, the lower version first."""
    _, asked = await checked_call(request, "read.versions", DifferenceArguments)
    versions = services_of(request).versions
    return answered(await versions.difference(asked.workflow_id, asked.against, caller=caller_of(request)))


@router.get(
    "/names",
    operation_id="find_names",
    summary="Find workflows by name",
    response_model=NamesAnswer,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(NameArguments)),
)
async def find_names(request: Request) -> Response:
    """Workflows of exactly that name first, else those with the nearest names."""
    context, asked = await checked_call(request, "read.names", NameArguments)
    browsing = services_of(request).browsing
    return answered(await browsing.find(asked.name, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/stats",
    operation_id="get_statistics",
    summary="Read the catalog in numbers",
    response_model=StatisticsAnswer,
    responses=error_responses(),
    openapi_extra=operation(),
)
async def get_statistics(request: Request) -> Response:
    """Counts of workflows and searches, as far as the caller may see them."""
    context, _ = await checked_call(request, "read.statistics", NoArguments)
    browsing = services_of(request).browsing
    return answered(await browsing.statistics(context=context, caller=caller_of(request), browsing=True))
