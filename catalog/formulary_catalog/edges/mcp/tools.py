"""The tools of the MCP server: an operation as MCP lists and calls it, and all of them by their toolset.

`edges.mcp.server` calls a tool with the checked arguments of a call, and shortens the answer to its size. What models
read of it is in `operations`: every word of it is tested. Lists are put together once: older clients ask for the list
with every call.
"""

from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import dataclass
from functools import cache
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import Tool as ListedTool
from mcp_types import ToolAnnotations

from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.answers.shortening import Json
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.catalog import CLUSTER
from formulary_catalog.operations.arguments.input_schema import input_schema, listed_name
from formulary_catalog.operations.operation import Operation, Tool
from formulary_catalog.operations.table import OPERATIONS
from formulary_catalog.settings import LabelSpelling, Toolset

EXAMPLES = "formulary.dev/examples"
"""Beside the schemas: no revision has a place for calls, and a model pays for what is in a schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTool:
    """An operation as MCP lists and calls it."""

    operation: Operation[Any, Any]
    spec: Tool

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def action(self) -> str:
        return self.operation.action

    @property
    def arguments(self) -> type[Arguments]:
        """What a call takes; more than what is listed."""
        return self.spec.arguments or self.operation.arguments

    def listed(self, *, spelling: LabelSpelling, with_clusters: bool) -> ListedTool:
        """The tool as `tools/list` shows it. A catalog without clusters does not list their label."""
        spec, schema = self.spec, input_schema(self.arguments, spelling=spelling)
        # A model counts no characters: the refusal of a text that is too long says the bound.
        members = {
            name: {key: value for key, value in member.items() if key != "maxLength"}
            for name, member in schema["properties"].items()
            if name not in spec.unlisted
        }
        if CLUSTER in self.arguments.model_fields and not with_clusters:
            del members[listed_name(self.arguments, CLUSTER, spelling=spelling)]
        return ListedTool(
            name=spec.name,
            title=spec.title,
            description=spec.description,
            input_schema=schema | {"properties": members},
            output_schema=output_schema(spec.answer or self.operation.answer),
            annotations=ToolAnnotations(
                title=spec.title,
                read_only_hint=spec.read_only,
                destructive_hint=spec.destructive,
                idempotent_hint=spec.read_only,
                open_world_hint=False,
            ),
            _meta={EXAMPLES: self.examples(spelling=spelling)},
        )

    def examples(self, *, spelling: LabelSpelling) -> list[Json]:
        """Whole calls: one with what is required, and one with more, where there is more. Fields have the values."""
        fields = self.arguments.model_fields
        required = [*(name for name, field in fields.items() if field.is_required()), *self.spec.begun_by]
        least = {name: (fields[name].examples or [])[0] for name in required}
        more = {name: (fields[name].examples or [])[-1] for name in (*required, *self.spec.narrowed_by)}
        return [
            {listed_name(self.arguments, name, spelling=spelling): value for name, value in call.items()}
            for call in ([least] if more == least else [least, more])
        ]


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


def output_schema(answer: type[Answer]) -> dict[str, Any]:
    """The schema of an answer, with definitions put in place; a nullable value is described and has no type."""
    schema = answer.model_json_schema(mode="serialization")
    plain = _plain(schema, definitions=schema.get("$defs", {}))
    assert isinstance(plain, dict)
    return plain


def _plain(schema: Any, *, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_plain(item, definitions=definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = definitions[schema["$ref"].rpartition("/")[2]]
        return _plain({key: value for key, value in named.items() if key != "description"}, definitions=definitions)
    if nullable := _nullable(schema):
        return nullable
    # A member with a default may be left out of an answer that must be short. Its value is then not the default.
    dropped = {"title", "default"} | ({"$defs", "description"} if "properties" in schema else set())
    return {
        key: _members(value, definitions=definitions) if key == "properties" else _plain(value, definitions=definitions)
        for key, value in schema.items()
        if key not in dropped
    }


def _members(properties: dict[str, Any], *, definitions: dict[str, Any]) -> dict[str, Any]:
    """Apart from `_plain`, because a property may well be called `title`."""
    return {name: _plain(schema, definitions=definitions) for name, schema in properties.items()}


def _nullable(schema: dict[str, Any]) -> dict[str, Any] | None:
    types = [option.get("type") for option in schema.get("anyOf", []) if "type" in option]
    if "null" not in types or len(types) != len(schema["anyOf"]):
        return None
    return {"description": schema.get("description", "null when unknown")}
