"""What may be returned: the label rules of DESIGN section 4 as pure functions.

The SQL of `store.search.filters` states the same rules; a property test holds the two equal. `exclusion` says in words
which of them excludes a workflow.
"""

from formulary_catalog.domain.workflows.labels import (
    EXCLUDING_WHEN_ABSENT,
    WILDCARD,
    Constraints,
    WorkflowLabels,
)

_EMPTY: frozenset[str] = frozenset()
FALSY_DETECTED = frozenset({"", "false"})


def allowed(workflow: WorkflowLabels, constraints: Constraints) -> bool:
    """Whether the workflow may be returned under the constraints."""
    return (
        all(
            dimension_allows(declared=workflow.values.get(dimension, _EMPTY), dimension=dimension, wanted=wanted)
            for dimension, wanted in constraints.values.items()
            if wanted
        )
        and all(
            custom_allows(
                declared=workflow.custom.get(key, _EMPTY), wanted=wanted, strict=key in constraints.strict_keys
            )
            for key, wanted in constraints.custom.items()
            if wanted
        )
        and all(
            key not in workflow.detected or detected_holds(required=workflow.detected[key], observed=observed)
            for key, observed in constraints.detected.items()
        )
        and not any(phrase in workflow.exclusion_text for phrase in constraints.excluded_phrases)
    )


def detected_holds(*, required: str, observed: str) -> bool:
    """Whether a declared requirement holds for what was observed; `*` asks for any value but none and false."""
    return required == observed or (required == WILDCARD and observed not in FALSY_DETECTED)


def dimension_allows(*, declared: frozenset[str], dimension: str, wanted: frozenset[str]) -> bool:
    """Whether what a workflow declares in a dimension, folded, meets any of the wanted values."""
    if not declared:
        return dimension not in EXCLUDING_WHEN_ABSENT
    return WILDCARD in declared or not declared.isdisjoint(wanted)


def custom_allows(*, declared: frozenset[str], wanted: frozenset[str], strict: bool) -> bool:
    """Whether what a workflow declares for a custom label meets any of the wanted values."""
    if not declared:
        return not strict
    return WILDCARD in declared or not declared.isdisjoint(wanted)
