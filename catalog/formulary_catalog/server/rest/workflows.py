"""The REST side: the same answers as the tools, whole, for programs (DESIGN section 8).

Searching, reading one workflow and recording a choice. `server.app` mounts the router. Each endpoint reads its
arguments with the models of the tools and asks `search.service`; unlike for a model, no answer is shortened.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from formulary_catalog.domain.answers.catalog import SearchAnswer, SelectionReceipt, WorkflowDetails
from formulary_catalog.operations.arguments.catalog import DetailsArguments, SelectionArguments
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.rest.calls import (
    PREFIX,
    Guarded,
    answered,
    checked_call,
    object_body,
    recorded_call,
    services_of,
)
from formulary_catalog.server.rest.openapi import (
    DETAILS_OPERATION,
    SEARCH_OPERATION,
    SELECTION_OPERATION,
    error_responses,
)
from formulary_catalog.server.rest.search import SearchBody, read_search

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
    _, wanted = await recorded_call(
        request,
        "search",
        given=lambda: SearchBody.recordable(body),
        read=lambda context: read_search(body, context=context, caller=caller),
    )
    return answered(await services_of(request).catalog.search(wanted, caller=caller))


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
) -> Response:
    """One workflow by any of its names."""
    context, named = await checked_call(request, "details", DetailsArguments)
    return answered(
        await services_of(request).catalog.details(
            context=context, caller=caller_of(request), browsing=True, **named.untargeted
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
    context, chosen = await checked_call(request, "selection", SelectionArguments, given=await object_body(request))
    return answered(
        await services_of(request).catalog.record_selection(context=context, caller=caller_of(request), **dict(chosen))
    )
