"""What answers the search and operations over REST, and an application of them alone (DESIGN section 2).

`routes` documents these endpoints and puts them on a server. The application is for a process that asks
itself: what commands ask of a database. It has the answers and errors of a server, and nothing that only a server
needs: no MCP, console, documentation or listener, and no edge that checks hosts, asks who calls or makes calls wait for
each other. A person waits for the answer as long as it takes, and reads no log.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from formulary_catalog.edges.calls.caller import LOCAL, caller_of, with_caller
from formulary_catalog.edges.calls.error_replies import SEARCH_PATH
from formulary_catalog.edges.calls.failures import failure_of
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.rest.calls import (
    PREFIX,
    answered,
    checked_call,
    object_body,
    recorded_call,
    refusal,
    services_of,
)
from formulary_catalog.edges.rest.search import SearchBody, read_search
from formulary_catalog.errors import FormularyError, NotFound
from formulary_catalog.operations.operation import Call, Operation
from formulary_catalog.operations.services import Services
from formulary_catalog.operations.table import OPERATIONS

ROUTED = sorted(
    ((each, each.route) for each in OPERATIONS if each.route is not None), key=lambda pair: pair[1].takes_all
)
"""Operations with their routes; a path that is the beginning of others comes after them."""


def in_process(services: Services) -> ASGIApp:
    """Answers the local caller, who may see everything; what is no `FormularyError` is raised as it is."""
    routes = [Route(f"{PREFIX}{route.path}", endpoint_of(each), methods=[route.method]) for each, route in ROUTED]
    routes.append(Route(SEARCH_PATH, search, methods=["POST"]))
    app = Starlette(routes=routes, exception_handlers={FormularyError: _refused, 404: _nothing_there})
    app.router.redirect_slashes = False
    app.state.services, app.state.readiness = services, Readiness()

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app(with_caller(scope, LOCAL), receive, send)

    return called


def endpoint_of(asked: Operation[Any, Any]) -> Callable[..., Awaitable[Response]]:
    """What answers an operation at its route."""
    has_body = asked.route is not None and asked.route.has_body

    async def endpoint(request: Request, **_in_path: str) -> Response:
        given = await object_body(request) if has_body else None
        context, arguments = await checked_call(request, asked.action, asked.arguments, given=given)
        call = Call(
            services=services_of(request),
            arguments=arguments,
            context=context,
            caller=caller_of(request),
            browsing=True,
        )
        return answered(await asked.run(call))

    return endpoint


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


async def _nothing_there(request: Request, _error: Exception) -> Response:
    """Names with slashes lead to no route: nothing has them."""
    message = "there is nothing of that name; a name has no slash here"
    return refusal(request, failure_of(NotFound(message, reference=request.url.path)))


async def _refused(request: Request, error: Exception) -> Response:
    return refusal(request, failure_of(error))
