"""From pydantic models to structural schemas: the dialect in which a CRD declares to the API server what is valid.

It has no references, no null (the API server drops nulls by itself) and no choice between types. What may be of several
types has no type there, and the rules of each: a rule for texts says nothing about lists, and the reverse.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
_REFERENCE = "#/$defs/"
_RULES_OF_ONE_TYPE = ("minLength", "maxLength", "pattern", "minimum", "maximum", "minItems", "maxItems")
_RULES = ("format", "enum", "not", *_RULES_OF_ONE_TYPE)
_EXTENSION = "x-kubernetes-"
_TRANSLATED = frozenset(
    {
        *("$ref", "anyOf", "const", "exclusiveMinimum", "exclusiveMaximum", "default", "description", "type"),
        *("items", "properties", "required", "additionalProperties"),
    }
)
_INEXPRESSIBLE = frozenset({"title", "$defs", "propertyNames"})
_KNOWN = _TRANSLATED | _INEXPRESSIBLE | {*_RULES}


def structural_schema(model: type[BaseModel], *, keep_unknown: bool = False, defaults: bool = True) -> Schema:
    """The schema of what a model accepts, in camelCase.

    `keep_unknown`: the API server keeps fields that the model does not know, for others to read or for us to refuse.
    `defaults`: it writes defaults into what is applied. In members of lists that looks like a change to those who
    compare what they applied with what is there.

    Raises:
        ValueError: the model says something that has no form here.
    """
    document = model.model_json_schema()
    return _Translation(document.get("$defs", {}), keep_unknown, defaults).node(document)


@dataclass(frozen=True, slots=True)
class _Translation:
    definitions: Mapping[str, Schema]
    keep_unknown: bool
    defaults: bool

    def node(self, schema: Schema) -> Schema:
        schema = self._without_indirection(schema)
        unknown = [word for word in schema if word not in _KNOWN and not word.startswith(_EXTENSION)]
        if unknown:
            raise ValueError(f"{unknown[0]!r} has no form in a structural schema; translate it or leave it out")
        default = _default(schema) if self.defaults else {}
        return _described(schema) | self._type(schema) | _rules(schema) | default | self._members(schema)

    def _without_indirection(self, schema: Schema) -> Schema:
        """References, and choices between one thing and null, are written out; their siblings win."""
        if "$ref" in schema:
            named = self.definitions[schema["$ref"].removeprefix(_REFERENCE)]
            return self._without_indirection(named | _without(schema, "$ref"))
        branches = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
        if len(branches) == 1:
            return self._without_indirection(branches[0] | _without(schema, "anyOf"))
        return schema

    def _type(self, schema: Schema) -> Schema:
        if "type" not in schema:
            return {PRESERVE: True}
        others = schema.get("additionalProperties")
        is_free = others is True and "properties" not in schema
        if is_free or (self.keep_unknown and isinstance(others, bool)):
            return {"type": "object", PRESERVE: True}
        return {"type": schema["type"]}

    def _members(self, schema: Schema) -> Schema:
        members: Schema = {}
        if "anyOf" in schema:
            members |= self._choice([self.node(branch) for branch in schema["anyOf"]])
        if "items" in schema:
            members["items"] = self.node(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            members["additionalProperties"] = self.node(schema["additionalProperties"])
        if "required" in schema:
            members["required"] = schema["required"]
        if "properties" in schema:
            members["properties"] = {name: self.node(member) for name, member in schema["properties"].items()}
        return members

    def _choice(self, branches: list[Schema]) -> Schema:
        types = [branch.get("type") for branch in branches]
        if len(set(types)) < len(types):
            raise ValueError(f"a choice between {types} has no form in a structural schema: their rules would mix")
        words = (*_RULES_OF_ONE_TYPE, "items")
        return {word: branch[word] for branch in branches for word in words if word in branch}


def _without(schema: Schema, word: str) -> Schema:
    return {other: value for other, value in schema.items() if other != word}


def _described(schema: Schema) -> Schema:
    return {"description": " ".join(schema["description"].split())} if "description" in schema else {}


def _rules(schema: Schema) -> Schema:
    rules = {word: schema[word] for word in _RULES if word in schema}
    rules |= {word: value for word, value in schema.items() if word.startswith(_EXTENSION)}
    if "const" in schema:
        rules["enum"] = [schema["const"]]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in schema:
            rules |= {bound: schema[exclusive], exclusive: True}
    return rules


def _default(schema: Schema) -> Schema:
    default = schema.get("default")
    # An empty one says nothing, and would be written into what its author applied, and so into the content hash.
    return {"default": default} if default and isinstance(default, str | int | float) else {}
