"""The label rules of `domain.workflows.matching` as SQL conditions on the search table.

A property test holds the two equal. Every value is a parameter; only the names of columns are in the text.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from formulary_catalog.domain.search.label_weights import ANY, CUSTOM_WEIGHT, DETECTED_WEIGHT
from formulary_catalog.domain.workflows.labels import EXCLUDING_WHEN_ABSENT, WILDCARD, Constraints, Narrowing
from formulary_catalog.domain.workflows.matching import FALSY_DETECTED
from formulary_catalog.store.database.tenancy import StatementArguments

_ONE_ROW_EACH = "leading_row"
"""The condition that leaves one row of each workflow, whatever it declares."""


@dataclass(frozen=True, slots=True)
class LabelConditions:
    """The rules in SQL.

    `allowed` are conditions. `declared` says for each constrained dimension what a workflow declares there: true for a
    wanted value, false for any value, null for none. `custom` and `detected` have for each of these labels how much of
    it a workflow declares, 0 to 1.
    """

    allowed: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    custom: list[str] = field(default_factory=list)
    detected: list[str] = field(default_factory=list)

    @property
    def narrow(self) -> bool:
        """Whether they can exclude a workflow."""
        return self.allowed != [_ONE_ROW_EACH]

    @property
    def others(self) -> list[str]:
        """What custom and detected labels count, in log odds (`domain.search.label_weights`)."""
        weighted = ((CUSTOM_WEIGHT, self.custom), (DETECTED_WEIGHT, self.detected))
        return [f"{log_odds(weight)} * ({_halving(shares)})" for weight, shares in weighted if shares]


def label_conditions(constraints: Constraints, arguments: StatementArguments) -> LabelConditions:
    """The rules for these constraints, whose values become arguments."""
    rules = LabelConditions()
    conditions, declared = rules.allowed, rules.declared
    wanted_signals = constraints.values.get("signal_type", frozenset())
    if len(wanted_signals) == 1:
        (signal,) = wanted_signals
        # One row of each workflow: the row of the signal itself, else its `*` or generic row. All of these match.
        rows = arguments.add([signal, WILDCARD, ""], "text[]")
        exact = arguments.add(signal, "text")
        conditions.append("leading_row = any (array[true, false])")  # in the indexes it comes before the signal type
        conditions.append(f"signal_type = any ({rows})")
        conditions.append(f"(signal_type = {exact} or not signal_types && array[{exact}])")
        declared["signal_type"] = f"case signal_type when {exact} then true when {WILDCARD!r} then false end"
    else:
        conditions.append(_ONE_ROW_EACH)
    for dimension, wanted in sorted(constraints.values.items()):
        if not wanted or (dimension == "signal_type" and len(wanted) == 1):
            continue
        column = column_of(dimension)
        exact = _declares(column, wanted, arguments)
        met = f"{exact} or {WILDCARD!r} = any ({column})"
        conditions.append(f"({met})" if dimension in EXCLUDING_WHEN_ABSENT else f"(cardinality({column}) = 0 or {met})")
        declared[dimension] = f"case when {exact} then true when cardinality({column}) > 0 then false end"
    for key, wanted in sorted(constraints.custom.items()):
        if not wanted:
            continue
        name, exact = arguments.add(key, "text"), arguments.add(sorted(wanted), "text[]")
        met = f"custom -> {name} ?| {exact}"
        unless_absent = "false" if key in constraints.strict_keys else "true"
        conditions.append(f"coalesce({met} or custom -> {name} ? {WILDCARD!r}, {unless_absent})")
        rules.custom.append(counted(met, any_=f"custom ? {name}", weight=1.0))
    for key, observed in sorted(constraints.detected.items()):
        accepted = [observed] if observed in FALSY_DETECTED else [observed, WILDCARD]
        name = arguments.add(key, "text")
        required = f"detected ->> {name} = any ({arguments.add(accepted, 'text[]')})"
        conditions.append(f"coalesce({required}, true)")
        rules.detected.append(f"case when detected ? {name} then {log_odds(1.0)} else 0 end")
    if constraints.excluded_phrases:
        phrases = arguments.add(list(constraints.excluded_phrases), "text[]")
        conditions.append(
            f"not exists (select from unnest({phrases}) as phrase where strpos(exclusion_text, phrase) > 0)"
        )
    return rules


def narrowing_conditions(narrowing: Narrowing, arguments: StatementArguments) -> list[str]:
    """What else a caller narrows a search to; keywords are phrases that `text.exclusion_phrase` made."""
    conditions = []
    if narrowing.action_type:
        action = arguments.add(narrowing.action_type, "text")
        conditions.append(
            "version_id in (select version_id from workflow_version "
            f"where status = 'Active' and action_key = lower({action}))"
        )
    if narrowing.namespace:
        conditions.append(f"namespace = {arguments.add(narrowing.namespace, 'text')}")
    if narrowing.keywords:
        phrases = arguments.add(list(narrowing.keywords), "text[]")
        conditions.append(f"exists (select from unnest({phrases}) as phrase where strpos(exclusion_text, phrase) > 0)")
    return conditions


def counted(exact: str, *, any_: str, weight: float) -> str:
    """What it counts that an allowed workflow declares a wanted value, or any value; nothing if it declares none."""
    return f"case when {exact} then {log_odds(weight)} when {any_} then {log_odds(weight * ANY)} else 0 end"


def _halving(shares: Sequence[str]) -> str:
    """`label_weights.halving` in SQL."""
    return f"{log_odds(2.0)} - {log_odds(2.0)} * power({log_odds(0.5)}, {' + '.join(shares)})"


def log_odds(weight: float) -> str:
    """A weight as a number of the kind that distances are; a bare one would be added up as a slow `numeric`."""
    return f"float8 '{weight}'"


def _declares(column: str, values: Collection[str], arguments: StatementArguments) -> str:
    """Whether a workflow declares one of the values."""
    if len(values) == 1:  # the usual case, and half as long as to compare two arrays
        return f"{arguments.add(next(iter(values)), 'text')} = any ({column})"
    return f"{column} && {arguments.add(sorted(values), 'text[]')}"


def column_of(dimension: str) -> str:
    """The column of `workflow_search` that holds what workflows declare in a dimension, folded: text[]."""
    return "signal_types" if dimension == "signal_type" else dimension
