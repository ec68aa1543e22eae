"""All tools of the MCP server by their toolset; lists of them are put together once.

Older clients ask for the list with every call. A tool names its toolset; a new subject goes in here.
"""

from collections.abc import Awaitable, Callable, Collection, Hashable
from functools import cache
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from formulary_catalog.operations.table import OPERATIONS
from formulary_catalog.server.mcp.tools.catalog_tools import CatalogTool
from formulary_catalog.settings import Toolset

_TOOLS = [CatalogTool(operation=each, spec=each.tool) for each in OPERATIONS if each.tool]
TOOLSETS: dict[Toolset, tuple[CatalogTool, ...]] = {
    toolset: tuple(each for each in _TOOLS if each.spec.toolset is toolset) for toolset in Toolset
}
OTHER_NAMES = {
    "get_playbook_details": "get_workflow_details",
    "kdd_search": "search_workflow_catalog",
    "kdd_list": "list_workflows",
    "kdd_related": "related_workflows",
    "kdd_find_spec": "find_workflow",
    "kdd_impact": "workflow_impact",
    "kdd_read_section": "read_workflow_section",
    "kdd_stats": "catalog_stats",
}
"""Names of the design documents, which are answered and not listed, and the tools that they mean."""


def tools_of(toolsets: Collection[Toolset]) -> tuple[CatalogTool, ...]:
    """The tools of these toolsets, in the order in which they are listed."""
    return tuple(tool for toolset, tools in TOOLSETS.items() if toolset in toolsets for tool in tools)


@cache
def answered_names(toolsets: frozenset[Toolset]) -> dict[str, CatalogTool]:
    """Every name that is answered where these toolsets are, older names included."""
    by_name = {tool.name: tool for tool in tools_of(toolsets)}
    return by_name | {other: by_name[name] for other, name in OTHER_NAMES.items() if name in by_name}


TOOLS_BY_NAME = answered_names(frozenset(Toolset))
"""Every name that some server answers."""


class ListedOnce:
    """Keeps the answer to `tools/list` for each protocol revision and for all else that it depends on.

    The SDK validates and converts the list for every request: two thirds of what a request for it costs.
    """

    def __init__(self, state: Callable[[ServerRequestContext[Any, Any]], Awaitable[Hashable]]) -> None:
        self._state = state
        self._answers: dict[tuple[str, Hashable], HandlerResult] = {}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the SDK, inside all others."""
        if not _is_plain(ctx):
            return await call_next(ctx)
        state = await self._state(ctx)
        asked = (ctx.protocol_version, state)
        if asked in self._answers:
            return self._answers[asked]
        answer = await call_next(ctx)
        if await self._state(ctx) == state:  # else it may tell of either
            self._answers[asked] = answer
        return answer


def _is_plain(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether it asks for the list over HTTP, where no handshake has to come first, and leaves nothing to refuse."""
    if ctx.method != "tools/list" or ctx.request is None or ctx.request_id is None:
        return False
    return not ctx.params or (set(ctx.params) == {"_meta"} and ctx.meta is not None)
