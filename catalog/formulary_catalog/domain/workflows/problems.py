"""What is wrong with a document, in words for its author."""

import reprlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

_MAX_SHOWN_PROBLEMS = 5
_MAX_SHOWN_KEY = 100
_SECRET_FIELDS = frozenset({"customLabels", "custom_labels"})
_WRONG_SHAPES = frozenset({"model_type", "model_attributes_type", "dict_type", "mapping_type"})
"""Problems whose value replaces a whole part: it may hold custom labels, so only its kind is shown."""
_KINDS: Mapping[type, str] = {
    dict: "a map",
    list: "a list",
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "nothing",
}
_RULES = {"missing": "is required; add it", "extra_forbidden": "is unknown; correct its name or remove it"}


def problems(error: ValidationError) -> tuple[str, str]:
    """The first field at fault, and one line that names each field, its rule and its value."""
    found = error.errors(include_url=False, include_context=False)
    fields = [".".join(_shown_key(part) for part in problem["loc"]) or "document" for problem in found]
    shown = [
        f"{name}: {_rule(problem['type'], problem['msg'])}{_value(problem['input'], field=name, kind=problem['type'])}"
        for name, problem in zip(fields, found[:_MAX_SHOWN_PROBLEMS], strict=False)
    ]
    if len(found) > _MAX_SHOWN_PROBLEMS:
        shown.append(f"and {len(found) - _MAX_SHOWN_PROBLEMS} more")
    return fields[0], "; ".join(shown)


def _rule(kind: str, message: str) -> str:
    return _RULES.get(kind) or message.removeprefix("Value error, ")


def _value(value: Any, *, field: str, kind: str) -> str:
    plain = isinstance(value, str | int | float)
    if kind in _RULES or not _SECRET_FIELDS.isdisjoint(field.split(".")) or (kind == "value_error" and not plain):
        return ""
    if kind in _WRONG_SHAPES or not plain:
        return f" (got {_KINDS.get(type(value), type(value).__name__)})"
    return f" (got {reprlib.repr(value)})"


def _shown_key(part: int | str) -> str:
    """One step of a field's path; keys are the author's own, so long or unprintable ones are cut and escaped."""
    text = str(part)
    return text if text.isprintable() and len(text) <= _MAX_SHOWN_KEY else reprlib.repr(text)
