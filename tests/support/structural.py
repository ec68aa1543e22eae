"""Judges objects by a CRD as the API server does, but refuses what that would prune."""

from collections.abc import Mapping
from typing import Any

import jsonschema

from formulary_operator.api.schema import PRESERVE, Schema


def validator(crd: Mapping[str, Any], part: str) -> jsonschema.Draft4Validator:
    """For `spec` or `status`. OpenAPI has its words from this draft of JSON Schema: bounds are exclusive by a flag."""
    (version,) = crd["spec"]["versions"]
    return jsonschema.Draft4Validator(_closed(version["schema"]["openAPIV3Schema"]["properties"][part]))


def _closed(schema: Schema) -> Schema:
    closed = dict(schema)
    if "properties" in schema:
        closed["properties"] = {name: _closed(member) for name, member in schema["properties"].items()}
        closed["additionalProperties"] = schema.get(PRESERVE, False)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            closed[inner] = _closed(schema[inner])
    return closed
