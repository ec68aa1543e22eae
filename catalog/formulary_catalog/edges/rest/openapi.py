"""What the OpenAPI document says beyond what the framework derives: bodies, headers and errors (DESIGN section 8)."""

from collections.abc import Container, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from formulary_catalog.edges.calls.incident import ANALYSIS_HEADER, REMEDIATION_HEADER
from formulary_catalog.edges.rest.search import REFERENCE, SearchBody
from formulary_catalog.operations.arguments.input_schema import (
    NOT_BLANK,
    Schema,
    input_schema,
    items_in,
    listed_name,
    model_in,
)
from formulary_catalog.settings import LabelSpelling


class ErrorDetail(BaseModel):
    """What went wrong. `field` names the part of the request at fault, where there is one; `data` says more."""

    code: Annotated[int, Field(examples=[-32001])]
    message: Annotated[str, Field(examples=["workflow 'oom-fix' is not known here; search for one that is"])]
    field: Annotated[str | None, Field(examples=["workflow_id"])]
    data: Annotated[dict[str, Any], Field(default={}, examples=[{"reference": "oom-fix", "nearest": ["oom-raise"]}])]


class ErrorAnswer(BaseModel):
    """The body of every error."""

    error: ErrorDetail


_ALWAYS = (400, 401, 403, 408, 421, 431, 500, 503)
_MEANINGS = {
    400: "Input invalid, or the incident of the call is missing, unknown or contradictory.",
    401: "No bearer token, or an invalid one; only where the server asks for tokens.",
    403: "Pages of this Origin may not call, or the caller lacks a right that the message names.",
    404: "Nothing of that name is visible here.",
    408: "The call took too long.",
    413: "The body is over 64 KiB.",
    415: "The Content-Type is not application/json.",
    421: "The Host is not served here.",
    431: "The address and the headers together are too long.",
    429: "The caller asks more often than it may; Retry-After says when to come back.",
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


_CONTEXT_HEADERS = [
    {
        "name": REMEDIATION_HEADER,
        "in": "header",
        "required": False,
        "description": "Remediation id of the incident whose constraints apply; blank counts as absent.",
        "schema": REFERENCE,
        "example": "rr-2026-0042",
    },
    {
        "name": ANALYSIS_HEADER,
        "in": "header",
        "required": False,
        "description": "`namespace/name` of the AIAnalysis of the incident; blank counts as absent.",
        "schema": REFERENCE,
        "example": "payments/checkout-oom",
    },
]


def body_schema(model: type[BaseModel]) -> Schema:
    """Arguments as the body of a request: those that may be absent may be null, those that may not are not blank."""
    listed = input_schema(model)
    required = listed["required"]
    members: Schema = {}
    for name, field in model.model_fields.items():
        listed_as = listed_name(model, name, spelling=LabelSpelling.DOTTED)
        member = listed["properties"][listed_as]
        if (inner := model_in(field)) is not None:
            member = {key: value for key, value in member.items() if key == "description"} | body_schema(inner)
        elif (inner := items_in(field)) is not None:
            member = member | {"items": body_schema(inner)}
        members[listed_as] = _mandatory(member) if listed_as in required else _nullable(member)
    return {key: value for key, value in listed.items() if key != "required" or value} | {"properties": members}


def _mandatory(member: Schema) -> Schema:
    return member | {"pattern": NOT_BLANK} if member["type"] == "string" and "enum" not in member else member


def _nullable(member: Schema) -> Schema:
    kinds = member["type"] if isinstance(member["type"], list) else [member["type"]]
    return member | {"type": [*kinds, "null"]}


def query_parameters(model: type[BaseModel], *, in_path: Container[str] = ()) -> list[Schema]:
    """Arguments as parameters of a query string, without those that are `in_path`."""
    schema = input_schema(model)
    listed = {name: member for name, member in schema["properties"].items() if name not in in_path}
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": member["description"],
            "schema": member,
        }
        for name, member in listed.items()
    ]


def operation(
    *, query: Sequence[Schema] = (), body: Schema | None = None, example: Any = None, of_incident: bool = True
) -> Schema:
    """What is added to an operation of the document: its query, the headers that name the incident, and a body."""
    added: Schema = {"parameters": [*query, *(_CONTEXT_HEADERS if of_incident else ())]}
    if body is not None:
        added["requestBody"] = {"required": True, "content": {"application/json": {"schema": body, "example": example}}}
    return added


SEARCH_OPERATION = operation(
    body=body_schema(SearchBody), example={"query": "OOMKilled critical", "label.environment": "production", "top_k": 3}
)
