"""The MCP server: tools and resources over whatever transport it runs on (DESIGN section 7).

`edges/app` mounts it at `/mcp`, `edges/cli/stdio` runs it on standard input. It keeps no sessions, so that any replica
can answer any call.
"""

import asyncio
import time
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from starlette.datastructures import Headers

from formulary_catalog import __version__
from formulary_catalog.domain.answers.shortening import Json, compact
from formulary_catalog.edges.calls.failures import failure_of, within_deadline
from formulary_catalog.edges.calls.opening import Opening
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.mcp.instructions import REMEDIATE, Instructing, prompt
from formulary_catalog.edges.mcp.requests import CallerOf, McpContext, McpRequests
from formulary_catalog.edges.mcp.resources import ResourceHandlers
from formulary_catalog.edges.mcp.skills import EXTENSION, GetSkillParams, ListSkillsParams
from formulary_catalog.edges.mcp.tools import CatalogTool, ListedOnce, answered_names, tools_of
from formulary_catalog.edges.mcp.toolsets import ChosenToolsets
from formulary_catalog.errors import FormularyError
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.operation import Call
from formulary_catalog.services.runs.waiting import Progress
from formulary_catalog.settings import LabelSpelling, Settings, Toolset

NAME = "formulary"
_HINT = CacheHint(ttl_ms=60_000, scope="public")
_OWN_HINT = CacheHint(ttl_ms=60_000, scope="private")
"""For what depends on caller and incident."""
_CLUSTER_USE_SECONDS = 10.0
_CLUSTER_USE_PATIENCE = 1.0


def mcp_server(
    *,
    opening: Opening,
    settings: Settings,
    readiness: Readiness,
    metrics: Metrics,
    caller_of: CallerOf,
    own_headers: Headers | None = None,
    toolsets: Collection[Toolset] = (),
) -> Server[Any]:
    """The server, ready to be run on a transport. `own_headers` stand for those of requests that have none.

    `toolsets` are listed and answered where a request does not choose; without any, the settings decide.

    The low-level class, because the tool list depends on the catalog and an unknown tool must be a protocol error.
    """
    requests = McpRequests(opening=opening, readiness=readiness, caller_of=caller_of, own_headers=own_headers)
    chosen = ChosenToolsets(settings, chosen=toolsets)
    tools = _Tools(requests, spelling=settings.label_parameters, metrics=metrics, chosen=chosen)
    resources = ResourceHandlers(requests)
    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title="Formulary",
        description="A catalog of approved remediation workflows for Kubernetes.",
        cache_hints={"tools/list": _HINT, "resources/list": _OWN_HINT, "resources/templates/list": _HINT},
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_resource_templates,
        on_read_resource=resources.read_resource,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
        get_tool_input_schema=_declares_no_headers,
    )
    server.extensions[EXTENSION] = {}
    server.add_request_handler("skills/list", ListSkillsParams, resources.list_skills)
    server.add_request_handler("skills/get", GetSkillParams, resources.get_skill)
    server.middleware += [Instructing(chosen), ListedOnce(tools.list_depends_on)]
    return server


def _declares_no_headers(tool: str) -> None:
    """No parameter of ours is repeated in a header: without this answer the SDK makes the tool list for each call."""


async def _list_prompts(ctx: McpContext, params: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(prompts=[REMEDIATE])


async def _get_prompt(ctx: McpContext, params: GetPromptRequestParams) -> GetPromptResult:
    return prompt(params.name, params.arguments)


class _Tools:
    """Lists and calls tools."""

    def __init__(
        self, requests: McpRequests, *, spelling: LabelSpelling, metrics: Metrics, chosen: ChosenToolsets
    ) -> None:
        self._requests = requests
        self._chosen = chosen
        self._spelling = spelling
        self._metrics = metrics
        self._with_clusters = False
        self._cluster_use_known_until = float("-inf")
        self._asking_cluster_use = asyncio.Lock()

    async def list_tools(self, ctx: McpContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        with_clusters = await self.uses_clusters()
        tools = tools_of(self._chosen.listed(ctx.request))
        return ListToolsResult(
            tools=[tool.listed(spelling=self._spelling, with_clusters=with_clusters) for tool in tools]
        )

    async def list_depends_on(self, ctx: McpContext) -> Hashable:
        """What the answer to `tools/list` depends on beside the protocol."""
        return await self.uses_clusters(), self._chosen.listed(ctx.request)

    async def call_tool(self, ctx: McpContext, params: CallToolRequestParams) -> CallToolResult:
        answered = answered_names(self._chosen.answered(ctx.request))
        tool = answered.get(params.name)
        if tool is None:
            raise _unknown_tool(params.name, known=answered, listed=tools_of(self._chosen.listed(ctx.request)))
        given = params.arguments or {}
        started = time.perf_counter()
        try:
            await self._requests.opening.until_open(_progress(ctx))  # a first start takes longer than a call may
            answer = await within_deadline(self._run(tool, given=given, ctx=ctx), seconds=tool.spec.seconds)
        except Exception as error:
            failure = failure_of(error)
            self._report(tool, outcome=failure.outcome, started=started)
            return CallToolResult(content=[TextContent(text=failure.advice)], is_error=True)
        self._report(tool, outcome="ok", started=started)
        return CallToolResult(content=[TextContent(text=compact(answer))], structured_content=answer)

    async def _run(self, tool: CatalogTool, *, given: Mapping[str, Any], ctx: McpContext) -> Json:
        request = await self._requests.checked(
            ctx,
            lambda: tool.arguments.read(tool.arguments.as_meant(given), spelling=self._spelling),
            action=tool.action,
            given=lambda: tool.arguments.recordable(given),
        )
        call = Call(
            services=request.services,
            arguments=request.arguments,
            context=request.context,
            caller=request.caller,
            progress=_progress(ctx),
        )
        answer = await tool.operation.run(call)
        return tool.spec.shrink(answer.as_json())

    def _report(self, tool: CatalogTool, *, outcome: str, started: float) -> None:
        self._metrics.count_tool_call(tool.name, outcome, seconds=time.perf_counter() - started)
        _log().info("tool_call", tool=tool.name, outcome=outcome)

    async def uses_clusters(self) -> bool:
        """Asked at most every few seconds, by one call for all, and no reason for the tool list to fail or wait."""
        services = self._requests.opening.services
        if services is None:
            return False
        async with self._asking_cluster_use:
            if time.monotonic() < self._cluster_use_known_until:
                return self._with_clusters
            try:
                async with asyncio.timeout(_CLUSTER_USE_PATIENCE):
                    self._with_clusters = await services.parts.workflows.uses_clusters()
                self._cluster_use_known_until = time.monotonic() + _CLUSTER_USE_SECONDS
            except (FormularyError, TimeoutError):
                # Those who wait behind this call would each be patient in turn.
                self._cluster_use_known_until = time.monotonic() + _CLUSTER_USE_PATIENCE
                _log().warning("cluster_use_unknown")
        return self._with_clusters


def _log() -> Any:
    import structlog  # slow, and `stdio` answers `initialize` without it

    return structlog.get_logger(__name__)


def _progress(ctx: McpContext) -> Progress:
    """Tells a client that asked for it, where the transport carries that: stateless HTTP with JSON answers does not."""

    async def report(waited: float, total: float, message: str) -> None:
        await ctx.session.report_progress(waited, total, message)

    return report


def _unknown_tool(name: str, *, known: Iterable[str], listed: Iterable[CatalogTool]) -> MCPError:
    from formulary_catalog.kernel.names import nearest_names  # slow, as it needs the store

    names = [tool.name for tool in listed]
    nearest = nearest_names(name[:64], names) or nearest_names(name[:64], list(known))
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    data = {"tools": names, "retry": False}
    return MCPError(code=INVALID_PARAMS, message=f"unknown tool {name[:64]!r}{hint}", data=data)
