"""The HTTP application: MCP, REST, the console, health and metrics, behind one edge (DESIGN section 8).

`formulary up` and `formulary serve` run it with `edges.http.serving`. It builds the services and puts routers and
middleware together; what a call does is in the modules that it names.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from formulary_catalog import __version__
from formulary_catalog.domain.access import Authenticator, Caller
from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.edges.calls.caller import caller_of
from formulary_catalog.edges.calls.error_replies import MCP_PATH, error_reply, is_of_oauth
from formulary_catalog.edges.calls.opening import Opening
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.console import router as console
from formulary_catalog.edges.console.route import error_page
from formulary_catalog.edges.console.sessions import Sessions
from formulary_catalog.edges.console.visitor import Door
from formulary_catalog.edges.http.authentication import Anybody, Counted, Identification, ProtectedResource, Senders
from formulary_catalog.edges.http.concurrency import Admission
from formulary_catalog.edges.http.health import AlertStates, CatalogSize
from formulary_catalog.edges.http.health import router as probes
from formulary_catalog.edges.http.middleware import LOOPBACK_NAMES, MAX_BODY_BYTES, Edge, HostRule
from formulary_catalog.edges.http.trusted_proxy import TrustedProxy
from formulary_catalog.edges.mcp.server import mcp_server
from formulary_catalog.edges.mcp.toolsets import AddressChecked
from formulary_catalog.edges.rest import invocations, routes, ruling
from formulary_catalog.edges.rest.calls import PREFIX, tagged
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.incidents import AlertReceiving
from formulary_catalog.settings import Settings
from formulary_catalog.store.ended_sessions import EndedSessions
from formulary_catalog.store.runs.input_keys import input_keys

OPENAPI_PATH = f"{PREFIX}/openapi.json"
_UNCHANGED = "The answer still has the ETag of If-None-Match."
_ROUTERS = (
    routes.router,
    routes.search_router,
    routes.alerts_router,
    routes.health_router,
    ruling.router,
    invocations.router,
    invocations.rpc_router,
    probes,
    console.router,
)
_NO_PATH = f"there is nothing at this path; the API is described at {OPENAPI_PATH}"
_NO_OAUTH = (
    "there is no OAuth server here; where a token is asked for, send the header `Authorization: Bearer TOKEN`, "
    "elsewhere connect without one"
)
_NOT_FOUND = -32001
_INVALID = -32002


def create_app(
    parts: CatalogParts, *, settings: Settings, readiness: Readiness, authenticator: Authenticator | None = None
) -> ASGIApp:
    """Everything that is served over HTTP; its lifespan must run, which uvicorn sees to.

    Without an authenticator everybody is the local caller, who may see everything.
    """
    services = Services.on(parts, settings=settings)
    known = Counted(authenticator, metrics=parts.metrics) if authenticator is not None else Anybody()
    sessions = StreamableHTTPSessionManager(
        app=mcp_server(
            opening=Opening(services),
            settings=settings,
            readiness=readiness,
            metrics=parts.metrics,
            caller_of=_mcp_caller,
        ),
        json_response=True,
        stateless=True,
        max_request_body_size=MAX_BODY_BYTES,
        # The edge has checked Host and Origin by the time a request gets here.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    alert_states = AlertStates(services.coverage)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with sessions.run():
                yield
        finally:
            await alert_states.stop()

    app = _api(lifespan=lifespan)
    app.state.services, app.state.readiness, app.state.metrics = services, readiness, parts.metrics
    app.state.catalog_size = CatalogSize(parts.workflows)
    app.state.alert_states = alert_states
    app.state.alerts = AlertReceiving(
        parts.database,
        keys=input_keys(settings),
        asks=authenticator is not None or settings.host not in LOOPBACK_NAMES,
    )
    app.state.door = Door(
        Identification(known),
        sessions=Sessions(EndedSessions(parts.database), keys=input_keys(settings).keys),
        asks=authenticator is not None,
        audience=settings.token_audience,
        proxy=TrustedProxy.load(path) if (path := settings.console_proxy_secret_file) is not None else None,
    )
    return Edge(
        _split(mcp=AddressChecked(StreamableHTTPASGIApp(sessions), offered=settings.offered_toolsets), api=app),
        admission=Admission(settings, metrics=parts.metrics),
        hosts=HostRule(allowed=settings.allowed_hosts, listening_on=settings.host),
        authenticator=known,
        visitors=app.state.door,
        senders=Senders(app.state.alerts),
        resource=ProtectedResource(issuer=settings.oidc_issuer, scope=settings.oidc_scope, address=settings.console_url)
        if authenticator is not None and settings.oidc_issuer
        else None,
    )


def openapi_document() -> dict[str, Any]:
    """The OpenAPI 3.1 document of everything but MCP."""
    return _api().openapi()


def _split(*, mcp: ASGIApp, api: ASGIApp) -> ASGIApp:
    """MCP apart from everything else: the layers of the REST side do nothing for it but take time.

    To REST, HEAD is GET: the server, which keeps the scope as it came, leaves the body out.
    """

    async def split(scope: Scope, receive: Receive, send: Send) -> None:
        is_mcp = scope["type"] == "http" and scope["path"] == MCP_PATH
        if scope["type"] == "http" and scope["method"] == "HEAD" and scope["path"].startswith(f"{PREFIX}/"):
            scope = {**scope, "method": "GET"}
        await (mcp if is_mcp else api)(scope, receive, send)

    return split


def _mcp_caller(request: Request | None) -> Caller:
    assert request is not None, "over HTTP every call comes with its request"
    return caller_of(request)


class _Api(FastAPI):
    """FastAPI, whose document does not claim the framework's own refusals: ours take their place."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                operation["responses"].pop("422", None)
                if method == "get" and path.startswith(PREFIX):
                    operation["responses"]["304"] = {"description": _UNCHANGED}
        for unused in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(unused, None)
        return document


def _api(*, lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    app = _Api(
        title="Formulary",
        summary="A catalog of approved remediation workflows for Kubernetes.",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error},
    )
    for router in _ROUTERS:
        app.include_router(router)
    app.add_route(OPENAPI_PATH, _document, methods=["GET"], include_in_schema=False)
    return app


async def _document(request: Request) -> Response:
    return tagged(request, JSONResponse(request.app.openapi()))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if path.startswith(f"{CONSOLE_PATH}/"):
        return error_page(request, status=error.status_code, message=str(error.detail))
    if error.status_code == 404:
        message = _NO_OAUTH if is_of_oauth(path) else _NO_PATH
        return error_reply(path=path, status=404, code=_NOT_FOUND, message=message)
    message, headers = str(error.detail), error.headers
    if error.status_code == 405:
        allowed = ", ".join(_methods_of(request))
        message, headers = f"{path} takes {allowed} only", {"Allow": allowed}
    return error_reply(path=path, status=error.status_code, code=_INVALID, message=message, headers=headers)


def _methods_of(request: Request) -> list[str]:
    """The methods of a path; the framework names those of its first route alone."""
    found = [route for router in _ROUTERS for route in router.routes if isinstance(route, Route)]
    methods = {
        method for route in found if route.matches(request.scope)[0] is not Match.NONE for method in route.methods or ()
    }
    if "GET" in methods and request.url.path.startswith(f"{PREFIX}/"):
        methods.add("HEAD")
    return sorted(methods)
