"""What is derived from the chart's values.yaml: its schema, and the table of values in its README.

A value's comment says what it means (`# -- …`) and, where its default does not tell all, its schema (`# @schema {…}`,
JSON Schema in YAML). Everything is closed: a map with keys takes these and no others, unless `free: true` says so.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[1] / "charts" / "formulary"
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One documented value: where it is, what it means, its default, and what its comment adds to the schema."""

    path: tuple[str, ...]
    meaning: str
    default: Any
    schema: dict[str, Any]


def values() -> list[Value]:
    """All documented values of the chart, in the order of the file."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return list(_values(root, lines=text.splitlines(), prefix=()))


def schema() -> str:
    """The JSON Schema that Helm checks values against."""
    document: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", **_closed()}
    for value in values():
        parent = document
        for step in value.path[:-1]:
            parent = parent["properties"].setdefault(step, _closed())
        parent["properties"][value.path[-1]] = _schema(value)
    # Helm hands these to every subchart.
    document["properties"]["global"] = {"type": "object"}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def readme() -> str:
    """The README of the chart."""
    rows = [f"| `{'.'.join(value.path)}` | {_shown(value.default)} | {value.meaning} |" for value in values()]
    head = (CHART / "README.md.head").read_text(encoding="utf-8").rstrip()
    return "\n".join([head, "", "## Values", "", "| value | default | meaning |", "|---|---|---|", *rows, ""])


def _values(mapping: yaml.MappingNode, *, lines: list[str], prefix: tuple[str, ...]) -> Iterator[Value]:
    for key, node in mapping.value:
        path = (*prefix, str(key.value))
        meaning, more = _comment(lines, above=key.start_mark.line)
        if meaning:
            yield Value(path=path, meaning=meaning, default=yaml.safe_load(yaml.serialize(node)), schema=more)
        elif isinstance(node, yaml.MappingNode):
            yield from _values(node, lines=lines, prefix=path)
        else:
            raise ValueError(f"{'.'.join(path)} has no comment; say above it what it means: `# -- …`")


def _comment(lines: list[str], *, above: int) -> tuple[str, dict[str, Any]]:
    """The meaning and the schema that stand directly above a line."""
    first = above
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    meaning: list[str] = []
    more: dict[str, Any] = {}
    for line in (line.strip().removeprefix("#").strip() for line in lines[first:above]):
        if line.startswith("@schema"):
            more = yaml.safe_load(line.removeprefix("@schema"))
        elif line.startswith("--") or meaning:
            meaning.append(line.removeprefix("--").strip())
    return " ".join(meaning), more


def _schema(value: Value) -> dict[str, Any]:
    more = dict(value.schema)
    free = more.pop("free", False)
    if isinstance(value.default, dict) and value.default and not free:
        raise ValueError(f"{'.'.join(value.path)} has keys of its own; comment on these, or say `free: true`")
    return {"description": value.meaning, "type": _TYPES[type(value.default)], **more}


def _closed() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _shown(default: object) -> str:
    if default in ("", {}, []):
        return ""
    return f"`{json.dumps(default, ensure_ascii=False) if not isinstance(default, str) else default}`"
