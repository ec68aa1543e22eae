"""All tools of the MCP server; their list is put together once, since older clients ask for it with every call."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from formulary_catalog.server.mcp.governance_tools import GOVERNANCE_TOOLS
from formulary_catalog.server.mcp.invocation_tools import INVOCATION_TOOLS
from formulary_catalog.server.mcp.tools import CATALOG_TOOLS, DETAILS_TOOL, CatalogTool

LISTED_TOOLS: tuple[CatalogTool[Any], ...] = (*CATALOG_TOOLS, *INVOCATION_TOOLS, *GOVERNANCE_TOOLS)
TOOLS_BY_NAME = {tool.name: tool for tool in LISTED_TOOLS} | {"get_playbook_details": DETAILS_TOOL}
"""Every name that is answered; the last is the older name of the details tool, kept for existing clients."""


class ListedOnce:
    """Keeps the answer to `tools/list` for each protocol revision and each state of the catalog that it depends on.

    The SDK validates and converts the list anew for every request: two thirds of what a request for it costs.
    """

    def __init__(self, state: Callable[[], Awaitable[Hashable]]) -> None:
        self._state = state
        self._answers: dict[tuple[str, Hashable], HandlerResult] = {}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the SDK, inside all others."""
        if not _is_plain(ctx):
            return await call_next(ctx)
        state = await self._state()
        asked = (ctx.protocol_version, state)
        if asked in self._answers:
            return self._answers[asked]
        answer = await call_next(ctx)
        if await self._state() == state:  # else it may tell of either
            self._answers[asked] = answer
        return answer


def _is_plain(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether it asks for the list over HTTP, where no handshake has to come first, and leaves nothing to refuse."""
    if ctx.method != "tools/list" or ctx.request is None or ctx.request_id is None:
        return False
    return not ctx.params or (set(ctx.params) == {"_meta"} and ctx.meta is not None)
