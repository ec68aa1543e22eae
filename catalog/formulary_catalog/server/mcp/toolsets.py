"""Which toolsets a client chose: at the address of the server, or when it was started (DESIGN section 7)."""

from collections.abc import Collection

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from formulary_catalog.errors import InvalidInput
from formulary_catalog.server.http.errors import MCP_PATH, error_reply
from formulary_catalog.settings import Settings, Toolset, toolsets_of

PARAMETER = "toolsets"


class ChosenToolsets:
    """What one client gets listed, of what the server offers."""

    def __init__(self, settings: Settings, *, chosen: Collection[Toolset] = ()) -> None:
        self.offered = settings.offered_toolsets
        self._listed = frozenset(chosen) or settings.listed_toolsets

    def of(self, request: Request | None) -> frozenset[Toolset]:
        """The toolsets to list: those that the address of a request names, else those of the server."""
        named = request.query_params.get(PARAMETER, "") if request is not None else ""
        return toolsets_of(named, among=self.offered) or self._listed


class ToolsetsChecked:
    """Refuses addresses that name a toolset which is not offered, before a client believes that it is connected."""

    def __init__(self, app: ASGIApp, *, offered: Collection[Toolset]) -> None:
        self._app = app
        self._offered = offered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        given = QueryParams(scope["query_string"]).getlist(PARAMETER)
        try:
            if len(given) > 1:
                raise InvalidInput(f"{PARAMETER} is given {len(given)} times; give it once", field=PARAMETER)
            toolsets_of(",".join(given), among=self._offered)
        except InvalidInput as error:
            return error_reply(path=MCP_PATH, status=error.http_status, code=error.rpc_code, message=str(error))
        return None
