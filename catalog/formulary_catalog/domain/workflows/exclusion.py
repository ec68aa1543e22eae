"""Why a workflow may not be returned: the rules of `domain/workflows/matching`, each with its own words.

`services/search/explanation/service` asks for it. A property test holds it equal to the matcher: there is a reason for
exactly those workflows that are not allowed. Custom labels are named only for who may read constraints.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from formulary_catalog.domain.text import one_line
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import (
    DIMENSIONS,
    EXCLUDING_WHEN_ABSENT,
    Constraints,
    Narrowing,
    WorkflowLabels,
    wire_name,
)
from formulary_catalog.domain.workflows.matching import custom_allows, detected_holds, dimension_allows

INCIDENT_LABEL = "an incident label excludes it"
"""What is said of a custom label to somebody who may not read constraints."""
RULES = (
    *map(wire_name, DIMENSIONS),
    *("custom-label", "detected-label", "exclude-keywords", "action-type", "namespace", "keywords"),
    *("suspended", "status"),
)
"""The names of all rules, as `Exclusion.rule` has them."""
_NONE: frozenset[str] = frozenset()
_SHOWN_VALUES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A rule that excludes a workflow: `rule` is its name for programs, `reason` says it in words."""

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


def exclusions(
    workflow: WorkflowLabels,
    constraints: Constraints,
    *,
    imposed: Constraints,
    reveal_custom: bool,
    says: str = "the incident says",
) -> Iterator[Exclusion]:
    """The label rules that exclude a workflow, in the order in which they are checked; none if it is allowed.

    `imposed` are those of the constraints that the incident demands, in reasons as `says` has it. `reveal_custom`:
    whether keys and values of custom labels may be said.
    """
    yield from _by_dimensions(workflow, constraints, imposed=imposed, says=says)
    yield from _by_custom_labels(workflow, constraints, reveal=reveal_custom, says=says)
    for key, observed in constraints.detected.items():
        required = workflow.detected.get(key)
        if required is not None and not detected_holds(required=required, observed=observed):
            needs, is_there = _shown(f"{key} {required}"), _shown(observed) or "nothing"
            yield Exclusion(rule="detected-label", reason=f"the workflow requires {needs}, detected was {is_there}")
    for phrase in constraints.excluded_phrases:
        if phrase in workflow.exclusion_text:
            yield Exclusion(
                rule="exclude-keywords",
                reason=f"the call excludes “{_shown(phrase)}”, which is in the name, title, description, keywords or "
                "action type of the workflow",
            )


def narrowed_out(
    workflow: WorkflowLabels, narrowing: Narrowing, *, namespace: str, action_type: str
) -> Iterator[Exclusion]:
    """What else the call is narrowed to and the workflow is not; keywords as `text.exclusion_phrase` makes them."""
    if narrowing.action_type and narrowing.action_type.lower() != action_type.lower():
        wanted = _shown(narrowing.action_type)
        yield Exclusion(rule="action-type", reason=f"the call asks for {wanted}, the workflow is {_shown(action_type)}")
    if narrowing.namespace and narrowing.namespace != namespace:
        wanted = _shown(narrowing.namespace)
        yield Exclusion(rule="namespace", reason=f"the call asks for {wanted}, the workflow is in {namespace}")
    if narrowing.keywords and not any(phrase in workflow.exclusion_text for phrase in narrowing.keywords):
        wanted = ", ".join(map(_shown, narrowing.keywords))
        yield Exclusion(rule="keywords", reason=f"the workflow contains none of: {wanted}")


def unserved(status: str, *, version: str, served: str) -> Exclusion:
    """Why a version that is not active is in no search; `served` is the version that is, if one is."""
    if status == "Disabled":
        return Exclusion(rule="suspended", reason="the workflow is suspended (spec.suspend)")
    instead = f"; {served} is served" if served else ""
    return Exclusion(rule="status", reason=f"version {version} is {status.lower()}{instead}")


def _by_dimensions(
    workflow: WorkflowLabels, constraints: Constraints, *, imposed: Constraints, says: str
) -> Iterator[Exclusion]:
    for dimension, wanted in constraints.values.items():
        declared = workflow.values.get(dimension, _NONE)
        if not wanted or dimension_allows(declared=declared, dimension=dimension, wanted=wanted):
            continue
        asks = says if imposed.values.get(dimension) else "the call asks for"
        must = ", and only workflows that declare it are allowed" if dimension in EXCLUDING_WHEN_ABSENT else ""
        has = _values(declared) if declared else f"nothing{must}"
        yield Exclusion(rule=wire_name(dimension), reason=f"{asks} {_values(wanted)}, the workflow declares {has}")


def _by_custom_labels(
    workflow: WorkflowLabels, constraints: Constraints, *, reveal: bool, says: str
) -> Iterator[Exclusion]:
    for key, wanted in constraints.custom.items():
        declared, strict = workflow.custom.get(key, _NONE), key in constraints.strict_keys
        if not wanted or custom_allows(declared=declared, wanted=wanted, strict=strict):
            continue
        if not reveal:
            # Once: how many of them exclude it would tell how many there are.
            yield Exclusion(rule="custom-label", reason=INCIDENT_LABEL)
            return
        has = _values(declared) if declared else "nothing, and this label is strict"
        yield Exclusion(
            rule="custom-label",
            reason=f"{_shown(key)}: {says} {_values(wanted)}, the workflow declares {has}",
        )


def _values(values: frozenset[str]) -> str:
    shown = [_shown(value) for value in sorted(values)[:_SHOWN_VALUES]]
    return " or ".join(shown) + (" or others" if len(values) > _SHOWN_VALUES else "")


def _shown(text: str) -> str:
    """What somebody wrote, as a part of one line."""
    return one_line(visible(text))
