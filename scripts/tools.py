"""The table of the MCP tools in docs/mcp.md, made of what `tools/list` tells."""

import json
import re
from collections.abc import Mapping
from typing import Any

from formulary_catalog.edges.mcp.tools import OTHER_NAMES, TOOLSETS
from formulary_catalog.settings import LabelSpelling, Toolset

Schema = Mapping[str, Any]
_HEAD = "| toolset | tool | older names | example call | answer |\n|---|---|---|---|---|\n"
_MAX_EXAMPLE = 160
_ID = re.compile(r"(wf_ver_|inv-|tr_)[0-9a-f]{20,}")
"""Ids are those of one catalog: readers put in what an answer gave them."""


def table() -> str:
    """The Markdown table: every tool with its toolset, an example and the shape of its answer."""
    rows = [
        _row(toolset, tool.listed(spelling=LabelSpelling.DOTTED, with_clusters=False).model_dump(by_alias=True))
        for toolset, tools in TOOLSETS.items()
        for tool in tools
    ]
    return _HEAD + "".join(rows)


def _row(toolset: Toolset, tool: Schema) -> str:
    older = ", ".join(f"`{name}`" for name, meant in OTHER_NAMES.items() if meant == tool["name"])
    example = _ID.sub(r"\1…", json.dumps(_example(tool["inputSchema"]), ensure_ascii=False))
    shape = _shape(tool["outputSchema"])
    return f"| `{toolset}` | `{tool['name']}` | {older} | `{example}` | `{shape}` |\n"


def _example(schema: Schema) -> dict[str, Any]:
    """The required arguments, and the first of the others where nothing is required; long ones as `…`."""
    properties = schema["properties"]
    names = schema["required"] or list(properties)[:1]
    return {name: _short(properties[name]["examples"][0]) for name in names}


def _short(value: Any) -> Any:
    if len(json.dumps(value)) <= _MAX_EXAMPLE:
        return value
    return {"…": "…"} if isinstance(value, dict) else ["…"]


def _shape(schema: Schema) -> str:
    """The members of an answer by name, with those of lists of objects."""
    members = []
    for name, member in schema["properties"].items():
        inner = member.get("items", member)
        if "properties" in inner:
            members.append(f"{name}[{_shape(inner)}]" if "items" in member else f"{name} {_shape(inner)}")
        else:
            members.append(f"{name}[]" if member.get("type") == "array" else name)
    return "{" + ", ".join(members) + "}"
