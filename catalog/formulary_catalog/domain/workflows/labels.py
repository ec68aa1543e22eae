"""Labels of both sides of a match: what a workflow declares and what a request demands (DESIGN section 4).

Comparison is case-insensitive for the fixed dimensions and exact for custom labels. Folding happens here, once, for
both sides, so that the pure rule and the SQL only ever compare equal strings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

WILDCARD = "*"
DIMENSIONS = (
    "signal_type",
    "severity",
    "environment",
    "component",
    "priority",
    "risk_tolerance",
    "business_category",
    "cluster",
)
"""Label dimensions, in the order in which answers list them. On the wire they are spelled `signal-type` and so on."""

EXCLUDING_WHEN_ABSENT = frozenset({"cluster"})
"""Dimensions in which a workflow without a value is excluded rather than generic."""


def fold(value: str) -> str:
    """The form in which label values of the fixed dimensions are compared."""
    return value.strip().casefold()


def fold_all(values: Iterable[str]) -> frozenset[str]:
    """Folded values without the empty ones."""
    return frozenset(folded for value in values if (folded := fold(value)))


def normalize_detected(value: bool | str) -> str:
    """Detected labels are booleans or strings; `true` and `"true"` are the same."""
    return str(value).strip().casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowLabels:
    """What one workflow declares. `values` maps a dimension to folded values; `custom` keeps its values as given."""

    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    custom: Mapping[str, frozenset[str]] = field(default_factory=dict)
    detected: Mapping[str, str] = field(default_factory=dict)
    exclusion_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a request demands.

    `values`: dimension to folded values, any of which satisfies. `custom`: key to values, any of which satisfies; keys
    in `strict_keys` must be declared by the workflow. `detected`: what is known of the incident's surroundings.
    `excluded_phrases`: keywords in the form of `text.exclusion_phrase`.
    """

    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    custom: Mapping[str, frozenset[str]] = field(default_factory=dict)
    strict_keys: frozenset[str] = frozenset()
    detected: Mapping[str, str] = field(default_factory=dict)
    excluded_phrases: tuple[str, ...] = ()
