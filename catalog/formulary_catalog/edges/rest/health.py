"""How the server is, over REST: the page Health as an answer."""

from fastapi import APIRouter, Request, Response

from formulary_catalog.edges.http.health import HealthAnswer, health_of
from formulary_catalog.edges.rest.calls import PREFIX, Guarded, answered, check_query
from formulary_catalog.edges.rest.openapi import error_responses, operation

router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["operations"])


@router.get(
    "/health",
    operation_id="get_health",
    summary="Read the health of this replica",
    response_model=HealthAnswer,
    responses=error_responses(),
    openapi_extra=operation(of_incident=False),
)
async def get_health(request: Request) -> Response:
    """Readiness, size of the catalog, what runs workflows, calls in progress, versions; while it starts, too."""
    check_query(request)
    return answered(await health_of(request))
