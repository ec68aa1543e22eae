"""JSON Schemas of the answers in the plain form that every client can read.

Nothing is referenced, nothing has a title, and objects are not described: their docstrings are for developers.
"""

from typing import Any

from formulary_catalog.domain.answers.catalog import Answer


def output_schema(answer: type[Answer]) -> dict[str, Any]:
    """The schema of an answer, with definitions put in place; a nullable value is described and has no type."""
    schema = answer.model_json_schema(mode="serialization")
    plain = _plain(schema, definitions=schema.get("$defs", {}))
    assert isinstance(plain, dict)
    return plain


def _plain(schema: Any, *, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_plain(item, definitions=definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = definitions[schema["$ref"].rpartition("/")[2]]
        return _plain({key: value for key, value in named.items() if key != "description"}, definitions=definitions)
    if nullable := _nullable(schema):
        return nullable
    # A member with a default may be left out of an answer that must be short. Its value is then not the default.
    dropped = {"title", "default"} | ({"$defs", "description"} if "properties" in schema else set())
    return {
        key: _members(value, definitions=definitions) if key == "properties" else _plain(value, definitions=definitions)
        for key, value in schema.items()
        if key not in dropped
    }


def _members(properties: dict[str, Any], *, definitions: dict[str, Any]) -> dict[str, Any]:
    """Apart from `_plain`, because a property may well be called `title`."""
    return {name: _plain(schema, definitions=definitions) for name, schema in properties.items()}


def _nullable(schema: dict[str, Any]) -> dict[str, Any] | None:
    types = [option.get("type") for option in schema.get("anyOf", []) if "type" in option]
    if "null" not in types or len(types) != len(schema["anyOf"]):
        return None
    return {"description": schema.get("description", "null when unknown")}
