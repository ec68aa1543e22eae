"""The body of the REST search: flat `label.*` keys or a `filters` object, read into one request (DESIGN section 8)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import ContextReference, SearchRequest
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import InvalidInput
from formulary_catalog.server.calls.arguments import auditable, canonical
from formulary_catalog.server.calls.filters import filter_label, filter_parameters, read_search_arguments
from formulary_catalog.server.calls.incident import reference_text
from formulary_catalog.server.calls.parameters import LABELS, SEARCH
from formulary_catalog.server.mcp.tools import search_request_of

EMBEDDING_DIMENSIONS = 384
MAX_CUSTOM_KEYS = 50
MAX_CUSTOM_VALUES = 50
MAX_CUSTOM_TEXT = 1000
CUSTOM_LABELS = "custom_labels"

PARAMETERS = tuple(replace(parameter, many=parameter.many or parameter in LABELS, quoted=False) for parameter in SEARCH)
"""Those of the search tool, with lists of label values; programs do not quote numbers."""

_PLAIN = {parameter.name: parameter for parameter in PARAMETERS}
_BODY = {name: name for name in (*_PLAIN, "filters", "embedding", "remediation_id")}
_FILTERS = frozenset(filter_label(parameter.name) for parameter in filter_parameters(PARAMETERS))


def read_search(body: Mapping[str, Any], *, context: ContextReference, caller: Caller) -> SearchRequest:
    """The search that a request body asks for. `context` comes from the headers, `remediation_id` in the body joins it.

    Raises:
        InvalidInput: a member is unknown, contradictory, of a wrong type or out of bounds.
        ContextError: `remediation_id` is no identifier.
    """
    given = canonical(body, known=_BODY)
    filters = _filters(given.get("filters", {}))
    custom = _custom_labels(filters.pop(CUSTOM_LABELS, {}), caller=caller)
    plain = {name: value for name, value in given.items() if name in _PLAIN}
    remediation_id = reference_text(given.get("remediation_id"), source="remediation_id")
    return search_request_of(
        read_search_arguments({**plain, "filters": filters}, parameters=PARAMETERS),
        context=replace(context, meta_remediation_id=remediation_id),
        embedding=_embedding(given["embedding"]) if "embedding" in given else None,
        custom_labels=custom,
    )


def auditable_search(body: Mapping[str, Any]) -> dict[str, Any]:
    """A refused body as the audit trail may keep it: without custom labels, and without the vector's numbers."""
    filters = body.get("filters")
    kept = {name: value for name, value in body.items() if name not in ("filters", "embedding")}
    kept = auditable(kept, known=_BODY)
    if not isinstance(filters, Mapping):
        return kept
    public = {key: value for key, value in filters.items() if key != CUSTOM_LABELS}
    return kept | {"filters": auditable(public, known=_FILTERS, name_of=filter_label)}


def _filters(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidInput(
            'filters is not an object; give one such as {"signal-type": "OOMKilled"}',
            field="filters",
        )
    return dict(given)


def _custom_labels(given: Any, *, caller: Caller) -> dict[str, tuple[str, ...]]:
    """Checked custom labels; messages name neither keys nor values."""
    if not given:
        return {}
    if not caller.may_set_context:
        raise _bad_custom_labels("may not be set by this caller; leave it out, the incident's own are applied")
    if not isinstance(given, Mapping) or len(given) > MAX_CUSTOM_KEYS:
        raise _bad_custom_labels(f"must be an object of at most {MAX_CUSTOM_KEYS} keys")
    return {_custom_text(key): _custom_values(values) for key, values in given.items()}


def _custom_values(given: Any) -> tuple[str, ...]:
    values = given if isinstance(given, list) else [given]
    if len(values) > MAX_CUSTOM_VALUES:
        raise _bad_custom_labels(f"must have at most {MAX_CUSTOM_VALUES} values a key")
    return tuple(_custom_text(value) for value in values)


def _custom_text(given: Any) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= MAX_CUSTOM_TEXT:
        raise _bad_custom_labels(f"keys and values must be texts of 1 to {MAX_CUSTOM_TEXT} characters")
    if not storable(given):
        raise _bad_custom_labels("must not contain a NUL or an unpaired surrogate character")
    return given


def _bad_custom_labels(rule: str) -> InvalidInput:
    return InvalidInput(f"filters.{CUSTOM_LABELS} {rule}", field=f"filters.{CUSTOM_LABELS}")


def _embedding(given: Any) -> tuple[float, ...]:
    """The vector at length one, so that a cosine of it is always a number."""
    rule = f"embedding must be {EMBEDDING_DIMENSIONS} finite numbers, not all zero; leave it out to have it made"
    numeric = isinstance(given, list) and all(isinstance(x, int | float) and not isinstance(x, bool) for x in given)
    if not numeric or len(given) != EMBEDDING_DIMENSIONS:
        raise InvalidInput(rule, field="embedding")
    try:
        largest = max(abs(float(x)) for x in given)
    except OverflowError:
        largest = math.inf
    if not 0 < largest < math.inf:
        raise InvalidInput(rule, field="embedding")
    scaled = [x / largest for x in given]
    length = math.hypot(*scaled)
    return tuple(x / length for x in scaled)
