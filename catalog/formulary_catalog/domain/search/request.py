"""A search as a caller asks for it.

The edges and the command line build it from the models of `operations/arguments`, which hold the bounds;
`kernel/search/planning` combines it with the incident. Custom labels are no part of what a model can set.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from formulary_catalog.domain.targets.reference import TargetReference
from formulary_catalog.domain.workflows.labels import DIMENSIONS, NOT_NARROWED, Narrowing, normalize_detected, wire_name
from formulary_catalog.errors import InvalidInput

MAX_QUERY_LENGTH = 4000
DEFAULT_TOP_K = 10
MAX_TOP_K = 50
MAX_REASONING_LENGTH = 4000
MAX_LABEL_VALUES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReference:
    """How a call names its incident or its target; empty parts were not sent (DESIGN section 6).

    `address_remediation_id` is that of the address of the server.

    `optional`: the call is answered without an incident too. One that is named still constrains the answer.
    `takes_target`: the arguments of the call may name a target.
    """

    remediation_id: str = ""
    analysis: str = ""
    meta_remediation_id: str = ""
    address_remediation_id: str = ""
    target: TargetReference | None = None
    optional: bool = False
    takes_target: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """The remediation ids that were sent, the one that counts first."""
        sent = (self.remediation_id, self.meta_remediation_id, self.address_remediation_id)
        return tuple(filter(None, sent))

    @property
    def names(self) -> list[str]:
        """What the call names, as a cursor belongs to it."""
        return [next(iter(self.ids), ""), self.analysis, str(self.target or "")]

    @property
    def names_incident(self) -> bool:
        return bool(self.ids or self.analysis)

    def __bool__(self) -> bool:
        return self.names_incident or self.target is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search. `labels` maps a dimension to the values as given, any of which satisfies.

    Without `top_k` the answer holds at most `DEFAULT_TOP_K` workflows, and none that hardly fits the query.
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
    """The search for what is given, without what is empty.

    Bounds are those of the models; what comes from the trail, an incident or a rule was within them, or is cut.

    Raises:
        InvalidInput: a label is none of the dimensions; it would restrict nothing.
    """
    return SearchRequest(
        query=query,
        labels={
            require_dimension(name): given for name, values in (labels or {}).items() if (given := _filled(values))
        },
        exclude_keywords=_filled(exclude_keywords),
        narrowing=Narrowing(action_type=action_type, namespace=namespace, keywords=_filled(keywords)),
        min_confidence=min_confidence,
        top_k=top_k,
        max_bytes=max_bytes,
        embedding=embedding,
        custom_labels={key: values for key, values in (custom_labels or {}).items() if values},
        detected_labels={key: normalize_detected(value) for key, value in (detected_labels or {}).items()},
        context=ContextReference() if context is None else context,
    )


def require_dimension(name: str) -> str:
    """The label dimension of this name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in DIMENSIONS:
        known = ", ".join(wire_name(each) for each in DIMENSIONS)
        raise InvalidInput(f"label {name!r} is unknown; known labels: {known}", field=name)
    return name


def _filled(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if text)
