"""JSON Schema of the arguments of a call, in the plain form that every client and model can read.

`mcp/tools` lists it, `rest/openapi` documents it, and `refusals` takes the rule of a field from it: one plain type, no
title, no default, no null. What models read of an argument is what its field says, and nothing else.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from formulary_catalog.settings import LabelSpelling

Schema = dict[str, Any]
NOT_BLANK = r"[^\s\u001c-\u001f\u0085]"
"""Pattern of a text that says something. The last five are blank to Python and not to ECMA 262, whose patterns JSON
Schema has."""


@cache
def input_schema(model: type[BaseModel], *, spelling: LabelSpelling = LabelSpelling.DOTTED) -> Schema:
    """The schema of a closed object, its members in the order of the fields; shared, so not to be changed."""
    schema = model.model_json_schema(by_alias=spelling is LabelSpelling.DOTTED, schema_generator=_Plain)
    return {
        "type": "object",
        "properties": {name: _in_order(member) for name, member in schema.get("properties", {}).items()},
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def listed_name(model: type[BaseModel], name: str, *, spelling: LabelSpelling) -> str:
    """The name of a field as the schema has it."""
    return name if spelling is LabelSpelling.SNAKE else _spellings(model.model_fields[name], name=name)[0]


@cache
def fields_of(model: type[BaseModel]) -> Mapping[str, str]:
    """Every spelling of an argument, and the name of the field that it means."""
    named = {name: _spellings(field, name=name) for name, field in model.model_fields.items()}
    return {spelling: name for name, spellings in named.items() for spelling in spellings}


def _spellings(field: FieldInfo, *, name: str) -> list[str]:
    """Every name that a field is taken under; the first one is listed."""
    alias = field.validation_alias
    return [*(map(str, alias.choices) if isinstance(alias, AliasChoices) else [str(alias)] if alias else []), name]


def model_in(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is an object of its own, such as `filters`."""
    return field.annotation if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel) else None


def items_in(field: FieldInfo) -> type[BaseModel] | None:
    """The model of the items of a field that is a list of objects, such as `alerts`."""
    kinds = get_args(field.annotation) if get_origin(field.annotation) is list else ()
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _in_order(member: Schema) -> Schema:
    """Type, description and bounds first, examples last."""
    first = {key: member[key] for key in ("type", "description", "minimum") if key in member}
    last = {key: member[key] for key in ("examples",) if key in member}
    return first | {key: value for key, value in member.items() if key not in last} | last


class _Plain(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value
