"""Columns of tables and queries as `domain/analytics/growth` follows them through a statement: how big each may be."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from formulary_catalog.domain.analytics.measures import (
    ANY_SIZE,
    FIXED,
    LONGEST_NUMBER,
    NOTHING,
    TEXT,
    UNKNOWN,
    Kind,
    Value,
)

FIXED_COLUMNS = frozenset(
    """
    at candidates changed_at confidence cosine created_at degraded dry_run duration_ms duration_seconds failed
    finished_at first_confidence gone_at helped median_seconds rank rejected returned search_id started_at succeeded
    success_high success_low success_rate supported verified waited_seconds
    """.split()
)
"""Columns of `insight` that are numbers, times, flags or ids."""
TEXT_COLUMNS = frozenset(
    """
    action_type approver caller cluster component decision environment first_workflow gate incident_namespace missing
    mode name namespace outcome phase priority query reason reasoning remediation_id requester risk_level risks rules
    run_id severity signal signal_type signal_types source status target_kind target_name target_namespace title
    version version_id workflow
    """.split()
)
"""The others: texts, and lists of them."""
_AT_MOST = 10**15
_ESCAPED = 6


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query returns or a table holds: columns by name, in their order if that is known, and any others."""

    names: dict[str, Value] = field(default_factory=dict)
    columns: tuple[Value, ...] | None = None
    rest: Value = NOTHING
    work: int = 0

    @property
    def whole(self) -> Value:
        """A row as one value."""
        values = [*(self.names.values() if self.columns is None else self.columns), self.rest]
        return Value(total(each.size for each in values), work=total(each.work for each in values))

    @property
    def largest(self) -> Value:
        """Any of the columns."""
        return either([*self.names.values(), *(self.columns or ()), self.rest])

    def once(self) -> "Rows":
        """The same, where to name a column is no work: the planner does not write it out again."""
        columns = None if self.columns is None else tuple(replace(each, work=0) for each in self.columns)
        names = {name: replace(value, work=0) for name, value in self.names.items()}
        return Rows(names, columns, replace(self.rest, work=0), self.work)

    def renamed(self, given: Sequence[str]) -> "Rows":
        """With the names that an alias gives to the first columns."""
        if not given:
            return self
        columns = self.columns or ()
        values = [columns[place] if place < len(columns) else self.largest for place in range(len(given))]
        kept = {} if self.columns is not None and len(given) >= len(columns) else self.names
        return replace(self, names={**kept, **dict(zip(given, values, strict=True))})

    def united(self, other: "Rows") -> "Rows":
        """The rows of both: names are those of these, and columns belong together by their place."""
        if self.columns is None or other.columns is None or len(self.columns) != len(other.columns):
            largest = either([self.largest, other.largest])
            return Rows(dict.fromkeys(self.names, largest), None, largest)
        columns = tuple(either(pair) for pair in zip(self.columns, other.columns, strict=True))
        names = {
            name: either([value, *(new for old, new in zip(self.columns, columns, strict=True) if old == value)])
            for name, value in self.names.items()
        }
        return Rows(names, columns, either([self.rest, *columns]))

    def widened(self, before: "Rows") -> "Rows":
        """With everything that is bigger than before as big as anything of its kind."""
        names = {name: _widened(value, before.names.get(name)) for name, value in self.names.items()}
        return Rows(names, None, _widened(self.rest, before.rest))


TABLE = Rows(
    names={**dict.fromkeys(FIXED_COLUMNS, FIXED), **dict.fromkeys(TEXT_COLUMNS, Value(TEXT))},
    rest=Value(TEXT),
)
"""Any table of `insight`."""
ANYTHING = Rows(rest=UNKNOWN)


@dataclass(frozen=True, slots=True)
class Scope:
    """What names stand for in a place of a statement: those of WITH, and those of FROM, the innermost first."""

    defined: dict[str, Rows] = field(default_factory=dict)
    sources: tuple[dict[str, Rows], ...] = ()

    def within(self, sources: dict[str, Rows]) -> "Scope":
        """Inside a query that reads these."""
        return replace(self, sources=(sources, *self.sources))

    def column(self, name: str, *, source: str) -> Value:
        """A column, of the named source if there is one."""
        for sources in self.sources:
            named = [sources[source]] if source in sources else [] if source else list(sources.values())
            if found := [rows.names[name] for rows in named if name in rows.names]:
                return either(found)
            if source and named:  # x.f is f(x), too
                return _escaped(either([named[0].rest, named[0].whole]))
            if not source and name in sources:
                return sources[name].whole
        return either([Value(TEXT), *(rows.rest for sources in self.sources for rows in sources.values())])


def starred(sources: Iterable[Rows], *, work: int = 0) -> Rows:
    """All columns of these."""
    names: dict[str, Value] = {}
    found = list(sources)
    for rows in found:
        for name, value in rows.names.items():
            names[name] = either([value, names.get(name, NOTHING)])
    return Rows(names, None, either([rows.rest for rows in found]), work)


def either(values: Iterable[Value]) -> Value:
    """The largest that any of these may be."""
    found = list(values) or [NOTHING]
    return Value(
        max(each.size for each in found),
        max((each.kind for each in found), key=lambda kind: kind.value),
        max(each.work for each in found),
    )


def total(numbers: Iterable[int]) -> int:
    """The sum, or what is more than enough."""
    return min(sum(numbers), _AT_MOST)


def _widened(value: Value, before: Value | None) -> Value:
    if value == before or value.kind is Kind.FIXED:
        return value
    return replace(value, size=LONGEST_NUMBER if value.kind is Kind.NUMBER else ANY_SIZE)


def _escaped(value: Value) -> Value:
    return replace(value, size=min(value.size * _ESCAPED, ANY_SIZE))
