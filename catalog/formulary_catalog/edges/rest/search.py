"""The body of the REST search: flat `label.*` keys or a `filters` object, read into one request (DESIGN section 8).

It is that of the tool, for programs: lists of label values, no quoted numbers, and what no model may set.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic import field_validator as validator
from pydantic_core import PydanticCustomError

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import MAX_LABEL_VALUES, ContextReference, SearchRequest
from formulary_catalog.edges.calls.incident import MAX_LENGTH, REMEDIATION_HEADER, reference_text
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.catalog import (
    MAX_KEYWORDS_LENGTH,
    Filters,
    Keywords,
    Labels,
    SearchArguments,
    Words,
    as_list,
    labelled,
    list_schema,
)
from formulary_catalog.operations.arguments.refusals import broken
from formulary_catalog.operations.search import search_request_of

EMBEDDING_DIMENSIONS = 384
MAX_CUSTOM_KEYS = 50
MAX_CUSTOM_TEXT = 1000
_EMBEDDING_SCHEMA = {
    "type": "array",
    "items": {"type": "number"},
    "contains": {"not": {"const": 0}},
    "minItems": EMBEDDING_DIMENSIONS,
    "maxItems": EMBEDDING_DIMENSIONS,
}
REFERENCE = {"type": "string", "maxLength": MAX_LENGTH, "pattern": "^[ -~]*$"}


_CustomText = Annotated[str, StringConstraints(strip_whitespace=False, min_length=1, max_length=MAX_CUSTOM_TEXT)]
_CustomValues = Annotated[
    tuple[_CustomText, ...],
    Field(max_length=MAX_LABEL_VALUES),
    BeforeValidator(as_list),
    WithJsonSchema(list_schema(minLength=1, maxLength=MAX_CUSTOM_TEXT)),
]


def _unit_vector(given: Any) -> tuple[float, ...]:
    """The vector at length one, so that a cosine of it is always a number."""
    refused = broken(f"must be {EMBEDDING_DIMENSIONS} finite numbers, not all zero; leave it out to have it made")
    numeric = isinstance(given, list) and all(isinstance(x, int | float) and not isinstance(x, bool) for x in given)
    if not numeric or len(given) != EMBEDDING_DIMENSIONS:
        raise refused
    try:
        largest = max(abs(float(x)) for x in given)
    except OverflowError:
        largest = math.inf
    if not 0 < largest < math.inf:
        raise refused
    scaled = [x / largest for x in given]
    length = math.hypot(*scaled)
    return tuple(x / length for x in scaled)


@labelled(kind=Labels, prefix="")
class ProgramFilters(Filters):
    """The labels without their prefix, and custom labels."""

    custom_labels: dict[_CustomText, _CustomValues] = Field(
        default_factory=dict,
        max_length=MAX_CUSTOM_KEYS,
        repr=False,
        exclude=True,
        description="Custom label key to a value or a list of values; only from a caller that may set a context.",
        examples=[{"team": ["payments"]}],
    )


@labelled(kind=Labels)
class SearchBody(SearchArguments):
    """What is searched for, as a program says it."""

    exclude_keywords: Annotated[Keywords, WithJsonSchema(list_schema(maxLength=MAX_KEYWORDS_LENGTH))] = ()
    keywords: Annotated[Words, WithJsonSchema(list_schema(maxLength=MAX_KEYWORDS_LENGTH))] = Field(
        (), description="Only workflows with one of these words.", examples=["memory, limit"]
    )
    filters: ProgramFilters = Field(
        ProgramFilters(),
        description="The same labels without their prefix, for clients that nest them.",
        examples=[{"signal-type": "OOMKilled"}],
    )
    embedding: Annotated[tuple[float, ...] | None, PlainValidator(_unit_vector), WithJsonSchema(_EMBEDDING_SCHEMA)] = (
        Field(
            None,
            exclude=True,
            description="The query's vector, if the client made it itself: finite numbers, not all zero.",
        )
    )
    # Read with the headers of the call, which it must agree with.
    remediation_id: Annotated[Any, WithJsonSchema(REFERENCE)] = Field(
        None, description=f"As the header {REMEDIATION_HEADER}.", examples=["rr-2026-0042"]
    )

    @validator("min_confidence", "top_k", mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        if isinstance(given, str):
            raise PydanticCustomError("number", "is no number")
        return given


def read_search(body: Mapping[str, Any], *, context: ContextReference, caller: Caller) -> SearchRequest:
    """The search that a request body asks for. `context` comes from the headers, `remediation_id` in the body joins it.

    Raises:
        InvalidInput: a member is unknown, contradictory, of a wrong type or out of bounds.
        ContextError: `remediation_id` is no identifier.
    """
    read = SearchBody.read(body)
    custom_labels = read.filters.custom_labels
    if custom_labels and not caller.may_set_context:
        raise InvalidInput(
            "filters.custom_labels may not be set by this caller; leave it out, the incident's own are applied",
            field="filters.custom_labels",
        )
    remediation_id = reference_text(read.remediation_id, source="remediation_id")
    return search_request_of(
        read,
        context=replace(context, meta_remediation_id=remediation_id),
        embedding=read.embedding,
        custom_labels=custom_labels,
    )
