"""What is derived from the chart's values: their schema, their defaults, and the tables in its README.

values.yaml has the values that most installations look at, more-values.yaml all others.

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


_USUAL, _MORE = "values.yaml", "more-values.yaml"


def values(*names: str) -> list[Value]:
    """The documented values of these files, or of all, in their order."""
    return [value for name in names or (_USUAL, _MORE) for value in _values_of(name)]


def _values_of(name: str) -> list[Value]:
    text = (CHART / name).read_text(encoding="utf-8")
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
    document["properties"]["global"] = {
        "type": "object",
        "properties": {
            "imageRegistry": {"type": "string"},
            "imagePullSecrets": {"type": "array", "items": {"type": "object"}},
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def defaults() -> str:
    """All defaults, for the templates: Helm gives them those of values.yaml alone, and at times not even these."""
    document: dict[str, Any] = {}
    for value in values():
        parent = document
        for step in value.path[:-1]:
            parent = parent.setdefault(step, {})
        parent[value.path[-1]] = value.default
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def readme() -> str:
    """The README of the chart."""
    head = (CHART / "README.md.head").read_text(encoding="utf-8").rstrip()
    usual, more = (_table(name) for name in (_USUAL, _MORE))
    return "\n".join([head, "", "## Values", "", *usual, "", "## All other values", "", *more, ""])


def _table(name: str) -> list[str]:
    rows = [f"| `{'.'.join(value.path)}` | {_shown(value.default)} | {value.meaning} |" for value in values(name)]
    return ["| value | default | meaning |", "|---|---|---|", *rows]


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
    kind = {} if "type" in more else {"type": _TYPES[type(value.default)]}
    return {"description": value.meaning, **kind, **more}


def _closed() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _shown(default: object) -> str:
    if default in ("", {}, [], None):
        return ""
    return f"`{json.dumps(default, ensure_ascii=False) if not isinstance(default, str) else default}`"
