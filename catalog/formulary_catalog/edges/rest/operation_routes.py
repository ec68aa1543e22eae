"""The routes of operations: each is read, answered and documented as its `Operation` says (DESIGN section 2)."""

from collections.abc import Awaitable, Callable, Iterable
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from formulary_catalog.edges.calls.caller import caller_of
from formulary_catalog.edges.rest.calls import PREFIX, Guarded, answered, checked_call, object_body, services_of
from formulary_catalog.edges.rest.openapi import body_schema, error_responses, operation, query_parameters
from formulary_catalog.operations.operation import Call, Operation, Route
from formulary_catalog.operations.table import OPERATIONS

_BODY_ERRORS = (413, 415)


def _router(operations: Iterable[Operation[Any, Any]]) -> APIRouter:
    router = APIRouter(prefix=PREFIX, route_class=Guarded)
    routes = [(each, each.route) for each in operations if each.route is not None]
    for each, route in sorted(routes, key=lambda pair: pair[1].takes_all):
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
    async def endpoint(request: Request, **_in_path: str) -> Response:
        given = await object_body(request) if route.has_body else None
        context, arguments = await checked_call(request, asked.action, asked.arguments, given=given)
        call = Call(
            services=services_of(request),
            arguments=arguments,
            context=context,
            caller=caller_of(request),
            browsing=True,
        )
        return answered(await asked.run(call))

    in_path = {name: Annotated[str, Path(description=text)] for name, text in route.in_path.items()}
    taken = {"request": Request, **in_path}
    endpoint.__signature__ = Signature(  # type: ignore[attr-defined]  # the framework documents the path by it
        [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in taken.items()]
    )
    return endpoint


router = _router(OPERATIONS)
