"""An operation as MCP lists and calls it (DESIGN section 7).

`server.mcp.server` calls a tool with the checked arguments of a call, and shortens the answer to its size. What models
read of it is in `operations`: every word of it is tested.
"""

from dataclasses import dataclass
from typing import Any

from mcp_types import Tool as ListedTool
from mcp_types import ToolAnnotations

from formulary_catalog.domain.answers.shortening import Json
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.catalog import (
    CLUSTER,
)
from formulary_catalog.operations.arguments.input_schema import input_schema, listed_name
from formulary_catalog.operations.operation import Operation, Tool
from formulary_catalog.server.mcp.schemas import output_schema
from formulary_catalog.settings import LabelSpelling

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
