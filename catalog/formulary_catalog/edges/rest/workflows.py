"""The search over REST (DESIGN section 8): no operation, because its body has more than a model may say.

Custom labels are taken from callers that may set a context; `rest.search` reads the body.
"""

from fastapi import APIRouter, Request, Response

from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.edges.calls.caller import caller_of
from formulary_catalog.edges.rest.calls import (
    PREFIX,
    Guarded,
    answered,
    object_body,
    recorded_call,
    services_of,
)
from formulary_catalog.edges.rest.openapi import (
    SEARCH_OPERATION,
    error_responses,
)
from formulary_catalog.edges.rest.search import SearchBody, read_search

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
