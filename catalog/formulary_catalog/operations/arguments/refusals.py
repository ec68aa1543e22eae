"""Refused arguments in words: the place of the bad value, the rule, the next step, in one line (DESIGN section 7).

The one renderer of pydantic's errors for calls, on every edge. The value of a field that is not in the `repr` of its
model is never shown: it may be a secret.
"""

import difflib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.input_schema import (
    Schema,
    fields_of,
    input_schema,
    items_in,
    listed_name,
    model_in,
)
from formulary_catalog.operations.json_text import shown
from formulary_catalog.settings import LabelSpelling

UNSTORABLE = "contains a NUL or an unpaired surrogate character; send plain text"
UNKNOWN = "unknown"
_MAX_COMPARED = 60
_NEAR = 0.605
"""Words that share no more letters, such as `page` and `target`, are not taken for misspelt ones."""
_OBJECT: Schema = {"type": "object"}
_SEPARATORS = re.compile("[-.]")
_LABEL = re.compile(r"^label[._]")
_MEANT = {
    "limit": ("top_k", "max_rows", "n"),
    "count": ("top_k", "limit", "max_rows", "n"),
    "top_k": ("limit", "max_rows", "n"),
    "labels": ("filters",),
    "name": ("workflow_id", "entity"),
    "workflow_id": ("entity", "name"),
    "id": ("workflow_id", "invocation_id", "doc_id"),
    "kind": ("action_type",),
}
"""What our arguments are called elsewhere, where that is spelled unlike ours."""
_RULES = {"string": "text", "boolean": "true or false", "array": "a list", "object": "an object"}


def broken(rule: str, *, name: str = "") -> PydanticCustomError:
    """The error of a validator that says its rule itself, in words that follow the name of the field.

    A validator of a whole model adds the `name` of the field.
    """
    return PydanticCustomError("rule", rule, {"name": name} if name else None)


def unknown_argument(
    given: str, *, allowed: Sequence[str], taken: Collection[str] = (), prefix: str = ""
) -> InvalidInput:
    """The refusal of a name, with the nearest one. `taken` are names that are not listed, such as `filters`.

    `prefix` is the place of the object that has it.
    """
    if not allowed:
        return InvalidInput(f"unknown argument {shown(prefix + given)}; no arguments are taken", field=prefix + given)
    # Without the prefix: with it, any two short label names are alike, and a bare label is like none of them.
    bare = {_LABEL.sub("", name): name for name in allowed}
    meant = [name for name in _MEANT.get(given, ()) if name in allowed or name in taken]
    near = difflib.get_close_matches(_LABEL.sub("", given)[:_MAX_COMPARED], bare, n=1, cutoff=_NEAR)
    nearest = [*meant, *(bare[name] for name in near)]
    hint = f"; did you mean {prefix + nearest[0]!r}?" if nearest else ";"
    names = ", ".join(prefix + name for name in allowed)
    return InvalidInput(f"unknown argument {shown(prefix + given)}{hint} allowed are: {names}", field=prefix + given)


def refusal(error: ValidationError, *, model: type[BaseModel], spelling: LabelSpelling, given: object) -> InvalidInput:
    """The first error in words; what is missing comes last, since it may have been sent under a wrong name."""
    problems = error.errors(include_url=False)
    problem = next((each for each in problems if each["type"] != "missing"), problems[0])
    context = problem.get("ctx", {})
    path = [*problem["loc"], *([context["name"]] if "name" in context else [])]
    names: list[str] = []
    schema: Schema = {}
    example: Any = None
    inner = model
    for part in path:
        if isinstance(part, int):  # of a list of objects: the parts below other lists are not walked
            names[-1] += f"[{part}]"
            schema, example, model = _OBJECT, example[0], inner
            given = given[part] if isinstance(given, Sequence) and part < len(given) else None
            continue
        if part not in model.model_fields:
            break
        written, listed = _written(model, part, given=given), listed_name(model, part, spelling=spelling)
        names.append(listed if not written or _alike(written, listed) else written)
        given = given[written] if written and isinstance(given, Mapping) else None
        field, schema = model.model_fields[part], _schema(model, part)
        example = (field.examples or [None])[0]
        if (found := model_in(field) or items_in(field)) is None:
            break
        inner = found
        model = model_in(field) or model
    if problem["type"] == UNKNOWN:
        taken = fields_of(model)
        unknown = next(name for name in problem["input"] if name not in taken)
        allowed = list(input_schema(model, spelling=spelling)["properties"])
        return unknown_argument(unknown, allowed=allowed, taken=taken, prefix="".join(f"{name}." for name in names))
    words = _words(problem, field=field, schema=schema, example=_example(example))
    return InvalidInput(f"{'.'.join(names)} {words}", field=".".join(names))


def _written(model: type[BaseModel], name: str, *, given: object) -> str:
    """The spelling in which a field was given; empty where it was not."""
    fields = fields_of(model)
    return next((each for each in given if fields.get(each) == name), "") if isinstance(given, Mapping) else ""


def _alike(written: str, listed: str) -> bool:
    """Whether they differ in dots, hyphens and underscores alone: models that need one spelling are to read that."""
    return _SEPARATORS.sub("_", written) == _SEPARATORS.sub("_", listed)


def _schema(model: type[BaseModel], name: str) -> Schema:
    listed: Schema = input_schema(model, spelling=LabelSpelling.SNAKE)["properties"]
    return listed.get(name) or {}


def _words(problem: ErrorDetails, *, field: FieldInfo, schema: Schema, example: str) -> str:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "rule":
            return problem["msg"]
        case "string_unicode":
            return UNSTORABLE
        case "missing":
            return f"is missing; give it, such as {example}"
        case "string_too_long":
            length = len(problem["input"])
            return f"has {length} characters; give at most {context['max_length']}"
        case "too_long":
            return f"has {context['actual_length']} entries; give at most {context['max_length']}"
        case "too_short":
            return f"has {context['actual_length']} entries; give at least {context['min_length']}, such as {example}"
        case "literal_error" | "enum":
            rule = context["expected"]
        case "string_too_short":
            rule = f"text of at least {context['min_length']} characters"
        case _:
            rule = _rule(schema)
    value = context.get("value", problem["input"])
    given = f"{shown(value)}, which is not" if field.repr and model_in(field) is None else "not"
    return f"is {given} {rule}; give a value such as {example}"


def _rule(schema: Schema) -> str:
    kind = schema.get("type", "object")
    if kind not in ("integer", "number"):
        return _RULES.get(kind, "text") if isinstance(kind, str) else "text"
    bounds = [f"{word} {schema[key]}" for word, key in (("from", "minimum"), ("to", "maximum")) if key in schema]
    return " ".join(["a whole number" if kind == "integer" else "a number", *bounds])


def _example(example: Any) -> str:
    return json.dumps(example, ensure_ascii=False) if isinstance(example, dict | list) else repr(example)
