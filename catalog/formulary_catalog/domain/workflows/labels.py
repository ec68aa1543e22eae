"""Labels of both sides of a match: what a workflow declares and what a request demands (DESIGN section 4).

Comparison is case-insensitive for the fixed dimensions and exact for custom labels. Folding happens here, once, for
both sides, so that the pure rule and the SQL only ever compare equal strings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

WILDCARD = "*"
CANONICAL_SIGNAL_TYPES = (
    "OOMKilled",
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "Evicted",
    "NodeNotReady",
    "PodPending",
    "FailedScheduling",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedMount",
)
SEVERITIES = ("critical", "high", "medium", "low", "warning", "info")
_MAX_COMPARED = 60
_ALIKE, _ALIKE_VALUE, _ALIKE_SIGNAL = 0.7, 0.8, 0.92
"""From this likeness on, of 1, a name, a value, or a signal is taken for a known one that was misspelt. Other signals
are nearly alike: `NodeReady`, `FailedUnmount`."""
_SHORTEST = 3
"""Letters of a value that is taken for the beginning of a usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A label that workflows declare and requests ask for.

    `description`, `examples` and `suggested` are what callers read of the parameter that asks for it; suggested values
    guide a model, others are accepted too. `weight` is the evidence, in log odds, that a workflow declares a value that
    was asked for (`domain.search.label_weights`). `excludes_when_absent`: a workflow without a value is excluded rather
    than generic.
    """

    name: str
    description: str
    examples: tuple[str, ...]
    weight: float
    suggested: tuple[str, ...] = ()
    excludes_when_absent: bool = False


LABEL_DIMENSIONS = (
    Dimension(
        name="signal_type",
        description="Event reason or alert that it must answer.",
        examples=("OOMKilled",),
        weight=0.4,
    ),
    Dimension(
        name="severity",
        description="Severity by your own assessment.",
        examples=("critical",),
        suggested=("critical", "high", "medium", "low"),
        weight=0.1,
    ),
    Dimension(
        name="environment",
        description="Leave out if unknown.",
        examples=("production",),
        suggested=("production", "staging", "development", "test"),
        weight=0.3,
    ),
    Dimension(
        name="component",
        description="Kind of the object to act on.",
        examples=("Deployment", "apps/v1/StatefulSet"),
        weight=0.3,
    ),
    Dimension(
        name="priority",
        description="Business priority; leave out if unknown.",
        examples=("P0",),
        suggested=("P0", "P1", "P2", "P3"),
        weight=0.1,
    ),
    Dimension(
        name="risk_tolerance",
        description="Acceptable risk; leave out if unknown.",
        examples=("low",),
        suggested=("low", "medium", "high"),
        weight=0.1,
    ),
    Dimension(
        name="business_category",
        description="Business category; leave out if unknown.",
        examples=("payments",),
        weight=0.2,
    ),
    Dimension(
        name="cluster",
        description="Cluster the incident is in; only workflows made for it are returned.",
        examples=("eu-west-1",),
        weight=0.2,
        excludes_when_absent=True,
    ),
)
"""All label dimensions, in the order in which answers list them. Parameters of tools, weights and columns derive from
it. A new one also needs its field in `manifest.Labels`, and a migration that adds its column of texts to the table and
to its covering index."""
_USUAL = {each.name: each.suggested for each in LABEL_DIMENSIONS} | {
    "signal_type": CANONICAL_SIGNAL_TYPES,
    "severity": SEVERITIES,
    "priority": (),  # any two are alike
}
"""By dimension, the values of which another one may be a misspelling."""
DIMENSIONS = tuple(dimension.name for dimension in LABEL_DIMENSIONS)
"""Their names. On the wire they are spelled `signal-type` and so on."""
EXCLUDING_WHEN_ABSENT = frozenset(each.name for each in LABEL_DIMENSIONS if each.excludes_when_absent)


def fold(value: str) -> str:
    """The form in which label values of the fixed dimensions are compared."""
    return value.strip().casefold()


CANONICAL_BY_FOLD = {fold(name): name for name in CANONICAL_SIGNAL_TYPES}


def fold_all(values: Iterable[str]) -> frozenset[str]:
    """Folded values without the empty ones."""
    return frozenset(folded for value in values if (folded := fold(value)))


def normalize_detected(value: bool | str) -> str:
    """Detected labels are booleans or strings; `true` and `"true"` are the same."""
    return str(value).strip().casefold()


def wire_name(dimension: str) -> str:
    """`signal_type` as it is spelled on the wire: `signal-type`."""
    return dimension.replace("_", "-")


def nearest_dimension(name: str) -> str:
    """The dimension that a name may mean which is none of them, however it is spelled; empty where none is near."""
    return next(
        iter(get_close_matches(fold(name).replace("-", "_")[:_MAX_COMPARED], DIMENSIONS, n=1, cutoff=_ALIKE)), ""
    )


def nearest_usual(dimension: str, value: str) -> str:
    """The usual value of a dimension that a value may mean which is none of them: `production` for `prod` and
    `prodcution`. Empty where none is near, and for names that hold a usual one, such as `PreProduction`, `staging-2`
    and `KubeNodeNotReady`."""
    usual = {fold(each): each for each in _USUAL.get(dimension, ())}
    folded = fold(value)[:_MAX_COMPARED]
    for each in usual:
        if folded.endswith(each) or (folded.startswith(each) and not folded[len(each)].isalpha()):
            return ""
    if dimension == "signal_type":
        near = get_close_matches(folded, usual, n=1, cutoff=_ALIKE_SIGNAL)
    else:
        begun = [each for each in usual if len(folded) >= _SHORTEST and each.startswith(folded)]
        near = begun if len(begun) == 1 else get_close_matches(folded, usual, n=1, cutoff=_ALIKE_VALUE)
    return usual[near[0]] if near else ""


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


UNCONSTRAINED = Constraints()
"""What demands nothing."""


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


RESTARTS, DATA_LOSS = "restarts", "data-loss"
STANDARD_KEYS = frozenset({RESTARTS, DATA_LOSS})
"""The custom labels with a meaning of their own, so that one label on a namespace is enough (DESIGN section 4).

`restarts: no` allows nothing that restarts, evicts, reschedules or deletes pods of a workload, `data-loss: no` nothing
that can lose data. `yes` demands nothing. Both are always strict: a workflow that does not say `no` is excluded.
"""
YES, NO = "yes", "no"


def demanded(custom: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """What custom labels of a context demand. Of a standard key, one `no` demands it, and `yes` alone nothing."""
    found = {key: frozenset(values) for key, values in custom.items()}
    return {
        key: frozenset({NO}) if key in STANDARD_KEYS and NO in values else values
        for key, values in found.items()
        if not (key in STANDARD_KEYS and values == {YES})
    }


def declared(custom: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """What custom labels of a workflow declare. Only `no` alone says no, `*` does not."""
    return {
        key: values if key not in STANDARD_KEYS or values == {NO} else frozenset({YES})
        for key, values in custom.items()
    }
