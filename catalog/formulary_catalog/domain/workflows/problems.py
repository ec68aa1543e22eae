"""What is wrong with a document, in words for its author."""

import difflib
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from formulary_catalog.domain.patterns import IN_WORDS

_MAX_SHOWN_PROBLEMS = 5
_MAX_SHOWN_KEY = 100
_ALIKE = 0.8
"""From this likeness on, of 1, an unknown name is taken for a known one that was misspelt."""
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
_MISSING, _UNKNOWN = "missing", "extra_forbidden"
_RULES = {_MISSING: "is required; add it", _UNKNOWN: "is unknown; correct its name or remove it"}
_CHOICES = frozenset({"literal_error", "enum"})
_SHAPES = {
    **dict.fromkeys(_WRONG_SHAPES, "must be a map"),
    "list_type": "must be a list",
    "string_type": "must be text",
}
"""In the words of `_KINDS`; the validator names its own classes."""


def problems(error: ValidationError, *, model: type[BaseModel] | None = None) -> tuple[str, str]:
    """The first field at fault, and one line that names the first fields, their rules and their values.

    With the `model` that raised it, misspelt fields are recognised.
    """
    found = each_problem(error, model=model)
    shown = [f"{field}: {problem}" for field, problem in found[:_MAX_SHOWN_PROBLEMS]]
    if len(found) > _MAX_SHOWN_PROBLEMS:
        shown.append(f"and {len(found) - _MAX_SHOWN_PROBLEMS} more")
    return found[0][0], "; ".join(shown)


def each_problem(error: ValidationError, *, model: type[BaseModel] | None = None) -> list[tuple[str, str]]:
    """Every field at fault, each with its rule and its value; `model` as for `problems`."""
    found = error.errors(include_url=False)
    fields = [".".join(_shown_key(part) for part in problem["loc"]) or "document" for problem in found]
    return [
        (field, _misspelt(problem, model=model) or f"{_rule(problem)}{_value(problem, field=field)}")
        for field, problem in zip(fields, found, strict=True)
    ]


def nearest_name(name: str, among: Iterable[str]) -> str:
    """The one of these that a misspelt name of a field, kind or group was meant to be; empty if it is like none."""
    return next(iter(difflib.get_close_matches(name[:_MAX_SHOWN_KEY], among, n=1, cutoff=_ALIKE)), "")


def _rule(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    if problem["type"] in _CHOICES:
        return f"must be {context['expected']}"
    pattern = context.get("pattern", "")
    said = _RULES.get(problem["type"]) or _SHAPES.get(problem["type"]) or IN_WORDS.get(pattern)
    return said or problem["msg"].removeprefix("Value error, ")


def _misspelt(problem: ErrorDetails, *, model: type[BaseModel] | None) -> str:
    """What is wrong with a field whose name was meant to be another; empty for all others."""
    *place, last = problem["loc"] or ("",)
    known = _fields_at(place, model=model) if model is not None else ()
    if problem["type"] == _UNKNOWN and (meant := nearest_name(str(last), known)):
        return f"is unknown; did you mean {meant}?"
    if problem["type"] == _MISSING and isinstance(problem["input"], Mapping):
        unknown = [str(key) for key in problem["input"] if str(key) not in known]
        if known and (given := nearest_name(str(last), unknown)):
            return f"is required; correct the name of {_shown_key(given)} if that is meant, else add it"
    return ""


def _fields_at(place: Sequence[int | str], *, model: type[BaseModel]) -> Collection[str]:
    """The fields, as documents have them, of the part at this place; none where that is described by no model."""
    inner: type[BaseModel] | None = model
    for step in place:
        if isinstance(step, str) and inner is not None:
            inner = _model_in(_fields(inner).get(step))
    return () if inner is None else _fields(inner)


def _fields(model: type[BaseModel]) -> Mapping[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, or a list of them, or may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _value(problem: ErrorDetails, *, field: str) -> str:
    value, kind = problem["input"], problem["type"]
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
