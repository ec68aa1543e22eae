"""The label rules of `domain.matching` as SQL conditions on the search table.

A property test holds the two equal. Every value is a parameter; only the names of columns are in the text.
"""

from dataclasses import dataclass, field
from typing import Any

from formulary_catalog.domain.labels import EXCLUDING_WHEN_ABSENT, WILDCARD, Constraints
from formulary_catalog.domain.matching import FALSY_DETECTED


class Arguments:
    """Numbers the parameters of a statement."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def add(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{kind}"


@dataclass(frozen=True, slots=True)
class LabelConditions:
    """The rules in SQL.

    `allowed` are conditions. `generic` has for each constrained label an expression that is 1 where the workflow says
    nothing of it, `confirmed` for each detected label one that is 1 where an allowed workflow requires it.
    """

    allowed: list[str] = field(default_factory=list)
    generic: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """The columns `generic` and `confirmed`."""
        return f"({_sum(self.generic)})::integer as generic, ({_sum(self.confirmed)})::integer as confirmed"


def label_conditions(constraints: Constraints, arguments: Arguments) -> LabelConditions:
    """The rules for these constraints, whose values become arguments."""
    rules = LabelConditions()
    conditions, generic = rules.allowed, rules.generic
    wanted_signals = constraints.values.get("signal_type", frozenset())
    if len(wanted_signals) == 1:
        (signal,) = wanted_signals
        # One row of each workflow: the row of the signal itself, else its `*` or generic row. All of these match.
        rows = arguments.add([signal, WILDCARD, ""], "text[]")
        exact = arguments.add(signal, "text")
        conditions.append("leading_row = any (array[true, false])")  # in the indexes it comes before the signal type
        conditions.append(f"signal_type = any ({rows})")
        conditions.append(f"(signal_type = {exact} or not signal_types && array[{exact}])")
        generic.append("(signal_type = '')::integer")
    else:
        conditions.append("leading_row")
    for dimension, wanted in sorted(constraints.values.items()):
        if not wanted or (dimension == "signal_type" and len(wanted) == 1):
            continue
        column = column_of(dimension)
        values = arguments.add([*sorted(wanted), WILDCARD], "text[]")
        if dimension in EXCLUDING_WHEN_ABSENT:
            conditions.append(f"{column} && {values}")
            continue
        conditions.append(f"(cardinality({column}) = 0 or {column} && {values})")
        generic.append(f"(cardinality({column}) = 0)::integer")
    for key, wanted in sorted(constraints.custom.items()):
        if not wanted:
            continue
        name = arguments.add(key, "text")
        declared = f"custom -> {name} ?| {arguments.add([*sorted(wanted), WILDCARD], 'text[]')}"
        if key in constraints.strict_keys:
            conditions.append(f"coalesce({declared}, false)")
            continue
        conditions.append(f"coalesce({declared}, true)")
        generic.append(f"(not custom ? {name})::integer")
    for key, observed in sorted(constraints.detected.items()):
        accepted = [observed] if observed in FALSY_DETECTED else [observed, WILDCARD]
        name = arguments.add(key, "text")
        required = f"detected ->> {name} = any ({arguments.add(accepted, 'text[]')})"
        conditions.append(f"coalesce({required}, true)")
        rules.confirmed.append(f"(detected ? {name})::integer")
    if constraints.excluded_phrases:
        phrases = arguments.add(list(constraints.excluded_phrases), "text[]")
        conditions.append(
            f"not exists (select from unnest({phrases}) as phrase where strpos(exclusion_text, phrase) > 0)"
        )
    return rules


def _sum(terms: list[str]) -> str:
    return " + ".join(terms) or "0"


def column_of(dimension: str) -> str:
    return "signal_types" if dimension == "signal_type" else dimension
