"""The REST side: the same answers as the tools, whole, for programs (DESIGN section 8)."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from formulary_catalog.domain.answers import SearchAnswer, SelectionReceipt, WorkflowDetails, WorkflowList
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.calls.catalog_arguments import DetailsArguments, SelectionArguments
from formulary_catalog.server.rest.calls import Guarded, answered, checked_call, object_body, services_of
from formulary_catalog.server.rest.openapi import (
    DETAILS_OPERATION,
    LIST_OPERATION,
    SEARCH_OPERATION,
    SELECTION_OPERATION,
    error_responses,
)
from formulary_catalog.server.rest.search import SearchBody, read_search

PREFIX = "/api/v1"
MAX_LIMIT = 1000
MAX_OFFSET = 1_000_000


router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["workflows"])


@router.post(
    "/workflows/search",
    operation_id="search_workflows",
    summary="Search the catalog",
    response_model=SearchAnswer,
    responses=error_responses(413, 415),
    openapi_extra=SEARCH_OPERATION,
)
async def search(request: Request) -> Response:
    """The workflows allowed for the incident that fit best, with reasons."""
    caller = caller_of(request)
    body = await object_body(request)
    _, wanted = await checked_call(
        request,
        "search",
        given=lambda: SearchBody.recordable(body),
        read=lambda context: read_search(body, context=context, caller=caller),
    )
    return answered(await services_of(request).catalog.search(wanted, caller=caller))


@router.get(
    "/workflows",
    operation_id="list_workflows",
    summary="List workflows",
    response_model=WorkflowList,
    responses=error_responses(),
    openapi_extra=LIST_OPERATION,
)
async def list_workflows(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many to return.")] = 100,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to leave out before.")] = 0,
) -> Response:
    """The visible workflows in name order."""
    page = {"limit": limit, "offset": offset}
    context, _ = await checked_call(request, "list", given=lambda: page, query=("limit", "offset"), read=lambda _: None)
    listed = await services_of(request).catalog.list_workflows(
        context=context, caller=caller_of(request), limit=limit, offset=offset, browsing=True
    )
    return answered(listed)


@router.get(
    "/workflows/{workflow_id:path}",
    operation_id="get_workflow",
    summary="Get one workflow in full",
    response_model=WorkflowDetails,
    responses=error_responses(404),
    openapi_extra=DETAILS_OPERATION,
)
async def get_workflow(
    request: Request,
    workflow_id: Annotated[str, Path(description="`name`, `namespace/name`, `name@version` or a version id.")],
    version: Annotated[str, Query(description="Semantic version; the latest active one without it.")] = "",
) -> Response:
    """One workflow by any of its names."""
    given = {"workflow_id": workflow_id, "version": version}
    context, named = await checked_call(
        request,
        "details",
        given=lambda: given,
        query=("version",),
        read=lambda _: DetailsArguments.read(given),
    )
    return answered(
        await services_of(request).catalog.details(
            context=context, caller=caller_of(request), browsing=True, **dict(named)
        )
    )


@router.post(
    "/selections",
    operation_id="record_selection",
    summary="Record the chosen workflow",
    response_model=SelectionReceipt,
    responses=error_responses(404, 413, 415),
    openapi_extra=SELECTION_OPERATION,
)
async def record_selection(request: Request) -> Response:
    """Write a choice and its reasons into the audit trail; nothing is run."""
    body = await object_body(request)
    context, chosen = await checked_call(
        request,
        "selection",
        given=lambda: SelectionArguments.recordable(body),
        read=lambda _: SelectionArguments.read(body),
    )
    return answered(
        await services_of(request).catalog.record_selection(context=context, caller=caller_of(request), **dict(chosen))
    )
