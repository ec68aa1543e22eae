"""A search as a caller asks for it, checked once for all edges.

The edges and the command line build it; `search/planning` combines it with the incident. Custom labels are no part of
what a model can set.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from formulary_catalog.domain.search.query import MAX_QUERY_LENGTH
from formulary_catalog.domain.text import storable
from formulary_catalog.domain.workflows.labels import DIMENSIONS, normalize_detected
from formulary_catalog.domain.workflows.visible import first_hidden
from formulary_catalog.errors import InvalidInput

DEFAULT_TOP_K = 10
MAX_TOP_K = 50
MAX_LABEL_LENGTH = 253
MAX_REASONING_LENGTH = 4000
MAX_LABEL_VALUES = 50
MAX_EXCLUDED_KEYWORDS = 50
_QUERY = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReference:
    """How a call names its incident; empty parts were not sent (DESIGN section 6)."""

    remediation_id: str = ""
    analysis: str = ""
    meta_remediation_id: str = ""

    def __bool__(self) -> bool:
        return bool(self.remediation_id or self.analysis or self.meta_remediation_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What a caller narrows a search to beside labels: an action type in whatever case, a namespace, and words of which
    a workflow must contain one. Empty parts do not narrow."""

    action_type: str = ""
    namespace: str = ""
    keywords: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.action_type or self.namespace or self.keywords)


NOT_NARROWED = Narrowing()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A checked search. `labels` maps a dimension to the values as given, any of which satisfies.

    Without `top_k` the answer holds at most `DEFAULT_TOP_K` workflows, and none that fits nothing in the query.
    `max_bytes`: how long the answer may be as compact JSON; None for any length. `detected_labels` are those of a case
    that somebody makes up to try a search; those of an incident win.
    """

    query: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude_keywords: tuple[str, ...] = ()
    narrowing: Narrowing = NOT_NARROWED
    min_confidence: float = 0.0
    top_k: int | None = None
    max_bytes: int | None = None
    embedding: tuple[float, ...] | None = None
    custom_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    detected_labels: Mapping[str, str] = field(default_factory=dict)
    context: ContextReference = field(default_factory=ContextReference)


def search_request(
    *,
    query: str,
    labels: Mapping[str, Iterable[str]] | None = None,
    exclude_keywords: Iterable[str] = (),
    action_type: str = "",
    namespace: str = "",
    keywords: Iterable[str] = (),
    min_confidence: float = 0.0,
    top_k: int | None = None,
    max_bytes: int | None = None,
    embedding: tuple[float, ...] | None = None,
    custom_labels: Mapping[str, tuple[str, ...]] | None = None,
    detected_labels: Mapping[str, str] | None = None,
    context: ContextReference | None = None,
) -> SearchRequest:
    """Check the bounds of DESIGN section 7 and drop what is empty.

    Raises:
        InvalidInput: the message names the bad value, the rule and the next step.
    """
    _check_text(query, field=_QUERY, limit=MAX_QUERY_LENGTH, advice=", the essential words first")
    if not query.strip():
        raise InvalidInput(
            "query is empty; give '<signal_type> <severity> [keywords]', such as 'OOMKilled critical'", field=_QUERY
        )
    if top_k is not None and not 1 <= top_k <= MAX_TOP_K:
        raise InvalidInput(f"top_k {top_k} is out of bounds; give 1 to {MAX_TOP_K}", field="top_k")
    if not 0 <= min_confidence <= 1:
        raise InvalidInput(f"min_confidence {min_confidence} is out of bounds; give 0 to 1", field="min_confidence")
    return SearchRequest(
        query=query,
        labels=_labels(labels or {}),
        exclude_keywords=_keywords(exclude_keywords, name="exclude_keywords"),
        narrowing=Narrowing(
            action_type=plain(action_type, field="action_type"),
            namespace=plain(namespace, field="namespace"),
            keywords=_keywords(keywords, name="keywords"),
        ),
        min_confidence=min_confidence,
        top_k=top_k,
        max_bytes=max_bytes,
        embedding=embedding,
        custom_labels={key: values for key, values in (custom_labels or {}).items() if values},
        detected_labels=_detected(detected_labels or {}),
        context=context or ContextReference(),
    )


def plain(value: str, *, field: str, limit: int = MAX_LABEL_LENGTH) -> str:
    """A text that narrows or names something, without the blanks around it. Every edge asks for it like this.

    Raises:
        InvalidInput: it is too long, or holds characters that nobody sees.
    """
    _check_text(value, field=field, limit=limit)
    if (hidden := first_hidden(value.strip(), field=field)) is not None:
        raise InvalidInput(f"{field} {hidden.problem}", field=field)
    return value.strip()


def wire_name(dimension: str) -> str:
    """`signal_type` as it is spelled on the wire: `signal-type`."""
    return dimension.replace("_", "-")


def _labels(labels: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    checked: dict[str, tuple[str, ...]] = {}
    for dimension, values in labels.items():
        if dimension not in DIMENSIONS:
            known = ", ".join(wire_name(name) for name in DIMENSIONS)
            raise InvalidInput(f"label {dimension!r} is unknown; known labels: {known}", field=dimension)
        name = f"label.{wire_name(dimension)}"
        given = tuple(stripped for value in values if (stripped := plain(value, field=name)))
        if len(given) > MAX_LABEL_VALUES:
            raise InvalidInput(f"{name} has {len(given)} values; give at most {MAX_LABEL_VALUES}", field=name)
        if given:
            checked[dimension] = given
    return checked


def _detected(labels: Mapping[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABEL_VALUES:
        raise InvalidInput(
            f"detected_labels has {len(labels)} entries; give at most {MAX_LABEL_VALUES}", field="detected_labels"
        )
    name = "detected_labels"
    return {plain(key, field=name): normalize_detected(plain(value, field=name)) for key, value in labels.items()}


def _keywords(keywords: Iterable[str], *, name: str) -> tuple[str, ...]:
    given = tuple(stripped for keyword in keywords if (stripped := plain(keyword, field=name)))
    if len(given) > MAX_EXCLUDED_KEYWORDS:
        raise InvalidInput(f"{name} has {len(given)} entries; give at most {MAX_EXCLUDED_KEYWORDS}", field=name)
    return given


def _check_text(value: str, *, field: str, limit: int, advice: str = "") -> None:
    if len(value) > limit:
        raise InvalidInput(f"{field} has {len(value)} characters; give at most {limit}{advice}", field=field)
    if not storable(value):
        raise InvalidInput(f"{field} contains a NUL or an unpaired surrogate character; send plain text", field=field)
