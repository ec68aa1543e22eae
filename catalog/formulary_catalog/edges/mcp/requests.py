"""What every request of the protocol has in common: services that may still open, its caller, its incident.

`edges.mcp.server` checks calls of tools with it, `edges.mcp.resources` those of resources and prompts. Both
wait for the catalog, and refuse and record in the same way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mcp.server.context import ServerRequestContext
from starlette.datastructures import Headers
from starlette.requests import Request

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.audited_call import checked
from formulary_catalog.edges.calls.incident import ADDRESS_PARAMETER
from formulary_catalog.edges.calls.opening import Opening
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.operations.services import Services

_T = TypeVar("_T")
CallerOf = Callable[[Request | None], Caller]
"""Who sent a request; there is none over stdio."""
McpContext = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest(Generic[_T]):
    """A request whose arguments were read, with what its answer takes."""

    services: Services
    context: ContextReference
    caller: Caller
    arguments: _T


class McpRequests:
    """Checks requests. `own_headers` stand for those of requests that have none, as over stdio."""

    def __init__(
        self, *, opening: Opening, readiness: Readiness, caller_of: CallerOf, own_headers: Headers | None
    ) -> None:
        self.opening = opening
        self._readiness = readiness
        self._caller_of = caller_of
        self._own_headers = own_headers

    async def checked(
        self,
        ctx: McpContext,
        read: Callable[[], _T],
        *,
        action: str,
        given: Callable[[], Mapping[str, Any]],
    ) -> CheckedRequest[_T]:
        """The request with the arguments that `read` makes. `given` is what the trail keeps of a refused one.

        Raises:
            FormularyError: arguments or incident are refused, or the catalog is not there yet.
        """
        services = await self.opening.until_open()
        caller = self._caller_of(ctx.request)
        context, arguments = await checked(
            lambda _: read(),
            action=action,
            given=given,
            headers=ctx.request.headers if ctx.request is not None else self._own_headers,
            meta=ctx.meta,
            address=ctx.request.query_params.get(ADDRESS_PARAMETER) if ctx.request is not None else None,
            trail=services.parts.trail,
            readiness=self._readiness,
            caller=caller,
        )
        return CheckedRequest(services=services, context=context, caller=caller, arguments=arguments)
