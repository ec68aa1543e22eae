"""The tables of a search's statements: `pool` has the candidates, `summary` says of how many allowed workflows.

All allowed workflows are compared exactly, but for one case: no label narrows them down and the caller may see more
than `EXACT_UP_TO`. Then their sketches decide which are compared.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from formulary_catalog.domain.search.fit import MEANING_WEIGHT
from formulary_catalog.domain.search.label_weights import (
    LABEL_WEIGHTS,
    OF_ALERTS,
    SEVERITY_CONTRADICTED,
    SEVERITY_WEIGHT,
    SIGNAL_WEIGHT,
)
from formulary_catalog.domain.workflows.labels import WILDCARD
from formulary_catalog.store.search.distances import Distances
from formulary_catalog.store.search.filters import LabelConditions, counted, log_odds

ALL = 512
"""Up to so many allowed workflows, all are ranked."""
NEAREST = 128
"""Where more are allowed, so many are ranked: the nearest to the query. Labels never take their places."""
DECLARING = 32
"""And so many of the rest: the best by meaning and labels together, so that a declared label is not overlooked."""
EXACT_UP_TO = 10_000
"""Up to so many workflows that the caller may see, every allowed one is compared exactly."""
SKETCHED = 512
"""How many of more are compared exactly: the nearest by their sketches."""
HOLDING = 32
"""And so many of those that hold a rare word of the query, where none of these does: the name of an error or of a
product may have no meaning for a model."""
RARE = 100
"""A word is rare that at most so many allowed workflows hold."""
MOST_HOLDERS = 5_000
"""Nothing is looked up of a word that more visible workflows hold, lest a search take too long."""
_UNKNOWN = 1.0
"""The distance that counts where a workflow has no vector of the model: that of a right angle."""
_BY_DISTANCE = "distance, version_id"
_BY_SCORE = f"{log_odds(MEANING_WEIGHT)} * coalesce(distance, {_UNKNOWN}) - labels, version_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The workflows that a search may return, and what of them is read.

    In SQL: `signal` and `severity` are parameters with those that the query mentions, None where it mentions none, as
    is `alert`: the first word, where `signal` is the cause behind it.
    `asked` are the dimensions for which `summary` says whether nobody declares what was asked; `more` are columns.
    """

    rules: LabelConditions
    distances: Distances
    signal: str | None
    severity: str | None
    alert: str | None = None
    asked: Collection[str] = ()
    more: Sequence[str] = ()

    @property
    def columns(self) -> str:
        """What is read of a workflow."""
        named = {
            "version_id": "version_id",
            "others": " + ".join(self.rules.others) or log_odds(0),
            "signal": f"{self.signal} = any (signal_types)" if self.signal else "false",
            "severity": self._severity_evidence,
            **({"alert": f"{self.alert} = any (signal_types)"} if self.alert else {}),
            "distance": self.distances.exact,
            **{f"declares_{dimension}": declared for dimension, declared in self.rules.declared.items()},
        }
        return ", ".join([*(f"{value} as {name}" for name, value in named.items()), *self.more])

    @property
    def _severity_evidence(self) -> str:
        """`label_weights.severity_evidence` in SQL."""
        if not self.severity:
            return log_odds(0)
        return (
            f"case when {self.severity} = any (severity) then {log_odds(SEVERITY_WEIGHT)}"
            f" when {self.severity} in {OF_ALERTS} or severity = '{{}}' or '{WILDCARD}' = any (severity)"
            f" then {log_odds(0)}"
            f" else {log_odds(-SEVERITY_CONTRADICTED)} end"
        )

    def found(self, condition: str) -> str:
        """The query for those of them for which a condition holds as well.

        It reads the table twice: what fits into the covering index is read from there, the rest from its rows.
        """
        return " union all ".join(
            f"select {self.columns} from workflow_search where {' and '.join([*self.rules.allowed, slim, condition])}"
            for slim in ("slim", "not slim")
        )

    @property
    def labels(self) -> str:
        """What the declared labels count together, over the columns."""
        counts = [
            counted(f"declares_{dimension}", any_=f"not declares_{dimension}", weight=LABEL_WEIGHTS[dimension])
            for dimension in self.rules.declared
        ]
        return " + ".join(["others", *counts, f"case when signal then {log_odds(SIGNAL_WEIGHT)} else 0 end"])

    @property
    def summary(self) -> str:
        """The columns of `summary` but for the counts, over a table of them."""
        undeclared = ", ".join(
            f"case when not coalesce(bool_or(declares_{name}), false) then '{name}' end" for name in self.asked
        )
        return f"""coalesce(bool_or({"alert" if self.alert else "signal"}), false) as signal_declared,
           array_remove(array[{undeclared}]::text[], null) as undeclared"""


def nearest(allowed: Allowed) -> str:
    """The tables where all are compared, and the nearest are candidates with the best of those that declare labels."""
    return _compared(allowed, order=_BY_DISTANCE, declaring=True)


def by_words(allowed: Allowed, *, query: str | None) -> str:
    """The tables where those that hold most of the words of a `tsquery` come first; then labels and names decide."""
    more, order = [*allowed.more, "name", "namespace"], "labels desc, name, namespace"
    if query is not None:
        more.append(f"ts_rank(lexemes, {query}::tsquery) as lexical")
        order = f"lexical desc, {order}"
    return _compared(replace(allowed, more=more), order=order)


def nearest_of_visible(allowed: Allowed) -> str:
    """The tables where every visible workflow is allowed.

    Of many, the nearest by their sketches are compared, and the nearest of those that declare the signal.
    """
    many, few = f"visible.total > {EXACT_UP_TO}", f"visible.total <= {EXACT_UP_TO}"
    declaring = ""
    for signal, most in ((allowed.signal, DECLARING), (allowed.alert, 1)):
        if not signal:
            continue
        rows = " union all ".join(
            f"select version_id, {allowed.distances.exact} as distance from workflow_search "
            f"where leading_row = any (array[true, false]) and signal_type = {signal} and {slim} and {many}"
            for slim in ("slim", "not slim")
        )
        declaring += f"""
        union (
            select found.version_id from visible, lateral ({rows} offset 0) as found
            order by found.distance, found.version_id limit {most}
        )"""
    return f"""
visible as materialized (
    -- An index that holds neither labels nor vectors has these rows, many to a page.
    select count(*) as total, count(known) as compared from entered, lateral (
        select {allowed.distances.known} as known from workflow_search
        where leading_row and entered.word_in_use is not null offset 0
    ) as counted
), near as materialized (
    (
        select found.version_id from visible, lateral (
            select version_id, {allowed.distances.sketched} as distance from workflow_search
            where leading_row and {many} offset 0
        ) as found order by found.distance, found.version_id limit {SKETCHED}
    ){declaring}
), allowed as materialized (
    select found.*, {allowed.labels} as labels from visible, lateral (
        {allowed.found(few)}
        union all
        select {allowed.columns} from workflow_search
        where leading_row and {many} and version_id = any (array(select version_id from near))
        offset 0
    ) as found
), summary as materialized (
    select (select total from visible), (select compared from visible), {allowed.summary}
    from allowed
), {_pool(_BY_DISTANCE, declaring=True)}"""


def holding(allowed: Allowed, *, words: str) -> str:
    """The table of those that hold rare ones of `words`, a parameter with lexemes; those of the rarest word first."""
    # What is visible and not allowed must not decide on what is rare, so that all holders are looked at, within reason.
    at_most = MOST_HOLDERS if allowed.rules.narrow else RARE
    return f"""
held as materialized (
    select held.* from entered, lateral (
        select word, version_id from formulary.holders({words}, {at_most})
        where entered.word_in_use is not null offset 0
    ) as held
), allowed as materialized (
    select found.*, {allowed.labels} as labels from (select distinct version_id as holder from held) as each, lateral (
        select {allowed.columns} from workflow_search
        where {" and ".join(allowed.rules.allowed)} and version_id = each.holder offset 0
    ) as found
), rare as materialized (
    select version_id, min(holders) as holders, count(*) as words from (
        select version_id, count(*) over (partition by word) as holders from held join allowed using (version_id)
    ) as counted where holders <= {RARE} group by version_id
), pool as materialized (
    select version_id, labels, severity, distance from allowed join rare using (version_id)
    order by holders, words desc, {_BY_SCORE} limit {HOLDING}
)"""


def _compared(allowed: Allowed, *, order: str, declaring: bool = False) -> str:
    return f"""
allowed as materialized (
    select found.*, {allowed.labels} as labels from entered, lateral (
        {allowed.found("entered.word_in_use is not null")} offset 0
    ) as found
), summary as materialized (
    select count(*) as total, count(distance) as compared, {allowed.summary}
    from allowed
), {_pool(order, declaring=declaring)}"""


def _pool(order: str, *, declaring: bool) -> str:
    columns = "select version_id, labels, severity, distance from allowed"
    more = f"""
    union (
        {columns} where (select total > {ALL} from summary) and labels > 0
        order by {_BY_SCORE} limit {DECLARING}
    )"""
    return f"""pool as materialized (
    ({columns} order by {order} limit (select case when total <= {ALL} then {ALL} else {NEAREST} end from summary))
    {more if declaring else ""}
)"""
