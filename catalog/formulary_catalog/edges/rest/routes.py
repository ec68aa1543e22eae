"""The routes of operations: each is read, answered and documented as its `Operation` says (DESIGN section 2).

Three more are no operations. The search (DESIGN section 8) has a body with more than a model may say, read by
`rest.search`, and takes custom labels from callers that may set a context. The health is the page Health as an answer.

Other systems send alerts to `POST /api/v1/incidents/NAMESPACE/SOURCE` (DESIGN section 15). The edge has found out which
source the sender is, by the secret of the source or by the mere presence of a signature, which covers the body and is
checked before that is parsed. Here the body is handed on, and answered once it is stored: a sender that is not answered
with 200 sends it again.
"""

from collections.abc import Awaitable, Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.edges.http.authentication import source_of
from formulary_catalog.edges.http.health import HealthAnswer, health_of
from formulary_catalog.edges.rest.calls import PREFIX, answered, check_query, object_body
from formulary_catalog.edges.rest.endpoints import ROUTED, endpoint_of, search
from formulary_catalog.edges.rest.guarded import Guarded
from formulary_catalog.edges.rest.openapi import (
    SEARCH_OPERATION,
    body_schema,
    error_responses,
    operation,
    query_parameters,
)
from formulary_catalog.operations.operation import Operation, Route
from formulary_catalog.services.incidents import SIGNATURE_HEADER, AlertReceiving, ReceivedAlerts

_BODY_ERRORS = (413, 415)
search_router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["workflows"])
health_router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["operations"])
alerts_router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["alerts"])
_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"type": "object", "additionalProperties": True}}},
}


def _router() -> APIRouter:
    router = APIRouter(prefix=PREFIX, route_class=Guarded)
    for each, route in ROUTED:
        router.add_api_route(
            route.path,
            _endpoint(each, route),
            methods=[route.method],
            operation_id=route.id,
            tags=[route.tag],
            summary=route.summary,
            description=route.description,
            response_model=each.answer,
            responses=error_responses(*route.errors, *(_BODY_ERRORS if route.has_body else ())),
            openapi_extra=operation(
                query=[] if route.has_body else query_parameters(each.arguments, in_path=route.in_path),
                body=body_schema(each.arguments) if route.has_body else None,
                example=route.example,
                of_incident=each.of_incident,
            ),
        )
    return router


def _endpoint(asked: Operation[Any, Any], route: Route) -> Callable[..., Awaitable[Response]]:
    endpoint = endpoint_of(asked)
    in_path = {name: Annotated[str, Path(description=text)] for name, text in route.in_path.items()}
    taken = {"request": Request, **in_path}
    endpoint.__signature__ = Signature(  # type: ignore[attr-defined]  # the framework documents the path by it
        [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in taken.items()]
    )
    return endpoint


router = _router()


search_router.add_api_route(
    "/workflows/search",
    search,
    methods=["POST"],
    operation_id="search_workflows",
    summary="Search the catalog",
    response_model=SearchAnswer,
    responses=error_responses(*_BODY_ERRORS),
    openapi_extra=SEARCH_OPERATION,
)


@health_router.get(
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


@alerts_router.post(
    "/incidents/{namespace}/{source}",
    operation_id="receive_alerts",
    summary="Send alerts",
    response_model=ReceivedAlerts,
    responses=error_responses(*_BODY_ERRORS),
    openapi_extra=operation(of_incident=False) | {"requestBody": _BODY},
)
async def receive_alerts(request: Request, namespace: str, source: str) -> Response:
    """The webhook of an IncidentSource, with its secret: that of Alertmanager, Grafana or PagerDuty, or any JSON."""
    check_query(request)
    receiving: AlertReceiving = request.app.state.alerts
    sender, signature = source_of(request), request.headers.get(SIGNATURE_HEADER, "")
    receiving.require_signature(sender, raw=await request.body(), signature=signature)
    return answered(await receiving.receive(sender, await object_body(request)))
