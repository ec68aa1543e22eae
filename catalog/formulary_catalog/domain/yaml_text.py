"""Documents as people write them in YAML: members in the usual order, scripts as lines.

The console and `formulary invoke` show manifests so, and `kubectl` reads them. PostgreSQL keeps the members of JSON in
an order of its own, so the usual one has to be restored. Long lines are never broken: a script must read as it runs.
"""

import math
from collections.abc import Mapping
from typing import Any

import yaml

_FIRST = ("apiVersion", "kind", "metadata", "name", "generateName", "namespace", "labels", "annotations")
_LAST = ("spec", "status")


class LiteralDumper(yaml.SafeDumper):
    """Writes texts of several lines as they were written."""


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


LiteralDumper.add_representer(str, _text)


def written(value: Any) -> str:
    """The document as YAML, its members in their own order."""
    return yaml.dump(value, Dumper=LiteralDumper, allow_unicode=True, width=math.inf, sort_keys=False)


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """The manifest of an object as YAML, members that say what it is first."""
    return written(_ordered(manifest))


def _ordered(value: Any) -> Any:
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: _ordered(value[name]) for name in sorted(value, key=_place)}


def _place(name: str) -> int:
    if name in _FIRST:
        return _FIRST.index(name)
    return len(_FIRST) + 1 + _LAST.index(name) if name in _LAST else len(_FIRST)
