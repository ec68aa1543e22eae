"""The JSON Schema of a workflow's input, made from its parameters."""

from collections.abc import Sequence
from typing import Any

from formulary_catalog.domain.workflow import Parameter

_TYPES = {"string": "string", "integer": "integer", "boolean": "boolean", "array": "array", "float": "number"}


def input_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """JSON Schema (2020-12) of the input object; closed, so that a misspelt parameter is refused."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: _property(parameter) for parameter in parameters},
        "additionalProperties": False,
    }
    if required := [parameter.name for parameter in parameters if parameter.required]:
        schema["required"] = required
    if dependent := {parameter.name: parameter.depends_on for parameter in parameters if parameter.depends_on}:
        schema["dependentRequired"] = dependent
    return schema


def _property(parameter: Parameter) -> dict[str, Any]:
    described = {
        "type": _TYPES[parameter.type],
        "enum": parameter.enum,
        "pattern": parameter.pattern,
        "minimum": parameter.minimum,
        "maximum": parameter.maximum,
        "default": parameter.default,
    }
    return {keyword: value for keyword, value in described.items() if value is not None}
