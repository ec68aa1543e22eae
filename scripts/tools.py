"""What docs/reference/tools.md says of a tool besides its arguments, made of what `tools/list` returns."""

import json
import re
from collections.abc import Mapping
from typing import Any

from formulary_catalog.edges.mcp.tools import OTHER_NAMES
from formulary_catalog.settings import Toolset

Schema = Mapping[str, Any]
_MAX_EXAMPLE = 160
_ID = re.compile(r"(wf_ver_|inv-|tr_)[0-9a-f]{20,}")
"""Ids are those of one catalog: readers put in what an answer gave them."""


def lines(toolset: Toolset, tool: Schema) -> list[str]:
    """Its toolset, its older names, an example and the shape of its answer, in Markdown."""
    older = "".join(f", older name `{name}`" for name, meant in OTHER_NAMES.items() if meant == tool["name"])
    example = _ID.sub(r"\1…", json.dumps(_example(tool["inputSchema"]), ensure_ascii=False))
    return [
        f"* Toolset `{toolset}`{older}",
        f"* Example: `{example}`",
        f"* Answer: `{_shape(tool['outputSchema'])}`",
        "",
    ]


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
