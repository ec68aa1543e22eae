"""What labels count as evidence, in log odds (DESIGN section 5).

A label raises a workflow that fits; it must never lift one that does not. So the weights are small next to those of
meaning and words, and of several custom or detected labels each further one counts half of the one before.
`make calibrate` writes the two of what a query mentions. The others are set by hand; fitted, that of detected labels
would be larger.

`store.search.filters` has the same rules in SQL; a property test holds the two equal.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from formulary_catalog.domain.workflows.labels import LABEL_DIMENSIONS, WILDCARD, Constraints, WorkflowLabels

LABEL_WEIGHTS = {dimension.name: dimension.weight for dimension in LABEL_DIMENSIONS}
"""By dimension: what it counts that a workflow declares a value that was given, or that the incident has."""
CUSTOM_WEIGHT = 0.5
"""What it counts that it declares the first of the incident's custom labels; all together less than twice as much."""
DETECTED_WEIGHT = 1.5
"""The same for what it requires and was detected."""
SIGNAL_WEIGHT = 2.08
"""What it counts that it declares the signal type that the query mentions. Written by scripts/calibrate.py."""
SEVERITY_WEIGHT = 1.47
"""The same for the severity that the query mentions. Written by scripts/calibrate.py."""
SEVERITY_CONTRADICTED = 0.5
"""What it counts against a workflow that it declares other severities than the one that the query mentions."""
OF_ALERTS = ("warning", "info")
"""Severities that alerts alone have. They contradict none of an incident."""
ANY = 0.5
"""The share of a weight that a workflow gets for `*`: it fits everywhere, and was not made for this."""


def label_evidence(workflow: WorkflowLabels, constraints: Constraints) -> float:
    """What the declared labels of an allowed workflow count, in log odds."""
    values = sum(
        weight * share(workflow.values.get(dimension, frozenset()), wanted=constraints.values.get(dimension))
        for dimension, weight in LABEL_WEIGHTS.items()
    )
    custom = (share(workflow.custom.get(key, frozenset()), wanted=wanted) for key, wanted in constraints.custom.items())
    detected = (float(key in workflow.detected) for key in constraints.detected)
    return values + CUSTOM_WEIGHT * halving(custom) + DETECTED_WEIGHT * halving(detected)


def severity_evidence(workflow: WorkflowLabels, *, mentioned: str) -> float:
    """What the severities of a workflow count for the one that a query mentions; `*` and none count nothing."""
    declared = workflow.values.get("severity", frozenset())
    if mentioned in declared:
        return SEVERITY_WEIGHT
    contradicts = mentioned and mentioned not in OF_ALERTS and declared and WILDCARD not in declared
    return -SEVERITY_CONTRADICTED if contradicts else 0.0


def halving(shares: Iterable[float]) -> float:
    """What several labels count together: the first 1, each further one half of the one before, less than 2."""
    return 2.0 - 2.0 * 0.5 ** sum(shares)


def share(declared: AbstractSet[str], *, wanted: AbstractSet[str] | None) -> float:
    """How much of a wanted label a workflow declares, 0..1: a value counts 1, `*` counts `ANY`."""
    if not wanted or not declared:
        return 0.0
    if declared & wanted:
        return 1.0
    return ANY if WILDCARD in declared else 0.0
