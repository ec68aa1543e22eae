"""Which toolsets a client chose: at the address of the server, or when it was started (DESIGN section 7).

A choice limits what is listed and what is answered. `AddressChecked` refuses an address with a parameter that is not
known, such as a misspelt incident that would constrain nothing.
"""

from collections.abc import Collection

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from formulary_catalog.domain.visible import visible
from formulary_catalog.edges.calls.error_replies import MCP_PATH, error_reply
from formulary_catalog.edges.calls.incident import ADDRESS_PARAMETER
from formulary_catalog.errors import InvalidInput
from formulary_catalog.settings import Settings, Toolset, toolsets_of

PARAMETER = "toolsets"
_MAX_SHOWN = 60
_KNOWN = (PARAMETER, ADDRESS_PARAMETER)


class ChosenToolsets:
    """What one client gets listed and answered, of what the server offers."""

    def __init__(self, settings: Settings, *, chosen: Collection[Toolset] = ()) -> None:
        self._offered = settings.offered_toolsets
        self._default = settings.listed_toolsets
        self._chosen = frozenset(chosen)

    def listed(self, request: Request | None) -> frozenset[Toolset]:
        """The toolsets to list: those that were chosen, else those of the settings."""
        return self._choice(request) or self._default

    def answered(self, request: Request | None) -> frozenset[Toolset]:
        """The toolsets whose tools may be called: those that were chosen, else all that are offered."""
        return self._choice(request) or self._offered

    def _choice(self, request: Request | None) -> frozenset[Toolset]:
        """What the address of a request names, else what was chosen at the start; empty for no choice."""
        named = request.query_params.get(PARAMETER, "") if request is not None else ""
        return toolsets_of(named, among=self._offered) or self._chosen


class AddressChecked:
    """Refuses an address with an unknown or repeated parameter, or a toolset that is not offered.

    Each request is checked, so that a client learns it from `initialize`, before it believes that it is connected.
    """

    def __init__(self, app: ASGIApp, *, offered: Collection[Toolset]) -> None:
        self._app = app
        self._offered = offered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        given = QueryParams(scope["query_string"])
        try:
            for name in given:
                _check_parameter(name, times=len(given.getlist(name)))
            toolsets_of(given.get(PARAMETER, ""), among=self._offered)
        except InvalidInput as error:
            return error_reply(path=MCP_PATH, status=error.http_status, code=error.rpc_code, message=str(error))
        return None


def _check_parameter(name: str, *, times: int) -> None:
    """Refuse a parameter that does nothing: its sender relies on it."""
    if name not in _KNOWN:
        shown = visible(name if len(name) <= _MAX_SHOWN else name[: _MAX_SHOWN - 1] + "…")
        raise InvalidInput(
            f"{shown!r} is no parameter of this address, which knows {' and '.join(_KNOWN)}; leave it out. The "
            "incident of a call is named by incident, or by the header X-Remediation-Id or X-AIAnalysis",
            field=name,
        )
    if times > 1:
        raise InvalidInput(f"{name} is given {times} times; give it once", field=name)
