"""The label rules of `domain.matching` as SQL conditions on the search table.

A property test holds the two equal. Every value is a parameter; only the names of columns are in the text.
"""

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


def label_conditions(constraints: Constraints, arguments: Arguments) -> tuple[list[str], list[str]]:
    """The conditions, and for each constrained label the expression that is 1 where the workflow is generic."""
    conditions: list[str] = []
    generic: list[str] = []
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
        required = f"detected ->> {arguments.add(key, 'text')} = any ({arguments.add(accepted, 'text[]')})"
        conditions.append(f"coalesce({required}, true)")
    if constraints.excluded_phrases:
        phrases = arguments.add(list(constraints.excluded_phrases), "text[]")
        conditions.append(
            f"not exists (select from unnest({phrases}) as phrase where strpos(exclusion_text, phrase) > 0)"
        )
    return conditions, generic


def column_of(dimension: str) -> str:
    return "signal_types" if dimension == "signal_type" else dimension
