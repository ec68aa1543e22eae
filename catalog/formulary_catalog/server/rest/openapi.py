"""What the OpenAPI document says beyond what the framework derives: bodies, headers and errors (DESIGN section 8)."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from formulary_catalog.domain.search.request import MAX_LABEL_VALUES
from formulary_catalog.server.calls.incident import ANALYSIS_HEADER, MAX_LENGTH, REMEDIATION_HEADER
from formulary_catalog.server.calls.parameters import LABEL_PREFIX, LABELS, SELECTION, CallParameter
from formulary_catalog.server.rest.search import (
    CUSTOM_LABELS,
    EMBEDDING_DIMENSIONS,
    MAX_CUSTOM_KEYS,
    MAX_CUSTOM_TEXT,
    MAX_CUSTOM_VALUES,
    PARAMETERS,
)

Schema = dict[str, Any]


class ErrorDetail(BaseModel):
    """What went wrong. `field` names the part of the request at fault, where there is one; `data` says more."""

    code: Annotated[int, Field(examples=[-32001])]
    message: Annotated[str, Field(examples=["workflow 'oom-fix' is not known here; search for one that is"])]
    field: Annotated[str | None, Field(examples=["workflow_id"])]
    data: Annotated[dict[str, Any], Field(default={}, examples=[{"reference": "oom-fix", "nearest": ["oom-raise"]}])]


class ErrorAnswer(BaseModel):
    """The body of every error."""

    error: ErrorDetail


_ALWAYS = (400, 401, 403, 408, 421, 500, 503)
_MEANINGS = {
    400: "Input invalid, or the incident of the call is missing, unknown or contradictory.",
    401: "No bearer token, or one that proves nothing; only where the server asks for tokens.",
    403: "Pages of this Origin may not call, or the caller lacks a right that the message names.",
    404: "Nothing of that name is visible here.",
    408: "The call took too long.",
    413: "The body is over 64 KiB.",
    415: "The body is not said to be JSON.",
    421: "The Host is not served here.",
    500: "Internal error; the message holds an id for the operators.",
    503: "The database or the check of callers does not answer, or too many calls are running; retry.",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of an operation: those that any call may meet, and `statuses`."""
    return {
        status: {"model": ErrorAnswer, "description": _MEANINGS[status]} for status in sorted((*_ALWAYS, *statuses))
    }


def meaning(status: int) -> str:
    """What a status says of any call."""
    return _MEANINGS[status]


_REFERENCE: Schema = {"type": "string", "maxLength": MAX_LENGTH, "pattern": "^[ -~]*$"}
_CONTEXT_HEADERS = [
    {
        "name": REMEDIATION_HEADER,
        "in": "header",
        "required": False,
        "description": "Remediation id of the incident whose constraints apply; blank counts as absent.",
        "schema": _REFERENCE,
        "example": "rr-2026-0042",
    },
    {
        "name": ANALYSIS_HEADER,
        "in": "header",
        "required": False,
        "description": "`namespace/name` of the AIAnalysis of the incident; blank counts as absent.",
        "schema": _REFERENCE,
        "example": "payments/checkout-oom",
    },
]


def _search_body() -> Schema:
    """The body of a search. Null counts as absent."""
    plain = {parameter.name: parameter_schema(parameter) for parameter in PARAMETERS}
    filters = {label.name.removeprefix(LABEL_PREFIX): plain[label.name] for label in LABELS}
    filters_object = closed_object(filters | {CUSTOM_LABELS: _custom_labels()}) | {
        "type": ["object", "null"],
        "description": "The same labels without their prefix, for clients that nest them.",
    }
    embedding = {
        "type": ["array", "null"],
        "description": "The query's vector, if the client made it itself: finite numbers, not all zero.",
        "items": {"type": "number"},
        "contains": {"not": {"const": 0}},
        "minItems": EMBEDDING_DIMENSIONS,
        "maxItems": EMBEDDING_DIMENSIONS,
    }
    reference = _REFERENCE | {"type": ["string", "null"], "description": f"As the header {REMEDIATION_HEADER}."}
    members = plain | {"filters": filters_object, "embedding": embedding, "remediation_id": reference}
    return closed_object(members, required=["query"])


def _selection_body() -> Schema:
    """The body of a selection: the parameters of the tool."""
    members = {parameter.name: parameter_schema(parameter) for parameter in SELECTION}
    return closed_object(members, required=[parameter.name for parameter in SELECTION if parameter.required])


def closed_object(members: Schema, *, required: list[str] | None = None) -> Schema:
    """An object with these members and no others."""
    schema: Schema = {"type": "object", "properties": members, "additionalProperties": False}
    return schema | {"required": required} if required else schema


def parameter_schema(parameter: CallParameter) -> Schema:
    """The parameter for a program: no suggestions, lists where they are taken, null where it may be absent."""
    schema = {key: value for key, value in parameter.schema().items() if key != "enum"}
    if parameter.required:
        return schema | {"pattern": r"\S"}
    if not parameter.many:
        return schema | {"type": [schema["type"], "null"]}
    items = {"type": "string", "maxLength": parameter.max_length}
    return schema | {"type": ["string", "array", "null"], "items": items, "maxItems": MAX_LABEL_VALUES}


def _custom_labels() -> Schema:
    text = {"type": "string", "minLength": 1, "maxLength": MAX_CUSTOM_TEXT}
    return {
        "type": ["object", "null"],
        "description": "Custom label key to a value or a list of values; only from a caller that may set a context.",
        "maxProperties": MAX_CUSTOM_KEYS,
        "propertyNames": text,
        "additionalProperties": {"anyOf": [text, {"type": "array", "items": text, "maxItems": MAX_CUSTOM_VALUES}]},
    }


def operation(*, body: Schema | None = None, example: Any = None) -> Schema:
    """What is added to an operation of the document: the headers that name the incident, and a body."""
    added: Schema = {"parameters": _CONTEXT_HEADERS}
    if body is not None:
        added["requestBody"] = {"required": True, "content": {"application/json": {"schema": body, "example": example}}}
    return added


BROWSING_OPERATION = operation()
DETAILS_OPERATION = operation()
SEARCH_OPERATION = operation(
    body=_search_body(), example={"query": "OOMKilled critical", "label.environment": "production", "top_k": 3}
)
SELECTION_OPERATION = operation(
    body=_selection_body(),
    example={"workflow_id": "oom-raise-memory-limit", "reasoning": "The limit is below the steady working set."},
)
