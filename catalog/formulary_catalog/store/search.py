"""The search statement: the label rules of `domain.matching` and the order of `domain.scoring`, in one round trip.

Each constrained label adds one condition, so there is one prepared statement for each shape of request; every value is
a parameter. Property tests hold the conditions equal to `matching.allowed` and the scores equal to `scoring.hybrid`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.labels import EXCLUDING_WHEN_ABSENT, WILDCARD, Constraints, fold
from formulary_catalog.domain.matching import FALSY_DETECTED
from formulary_catalog.domain.query import first_word, is_canonical
from formulary_catalog.domain.scoring import SCORE_DIGITS, SearchMode
from formulary_catalog.domain.text import searchable_words
from formulary_catalog.store.database import Connection, Database

MAX_RANKED_WORDS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RankQuery:
    """What to rank by: text, and its vector, float32 of shape (384,), with the model that made it."""

    text: str
    vector: npt.NDArray[np.float32] | None = None
    model_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One allowed workflow on the page, with the parts of its score."""

    version_id: str
    document: Mapping[str, Any] = field(repr=False)
    namespace: str
    name: str
    generic_labels: int
    cosine: float | None
    lexical: float
    score: float
    matched_words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """The best candidates in order, how many there are in all, and what ranked them."""

    candidates: tuple[Candidate, ...]
    total: int
    mode: SearchMode
    usable_words: int
    unfamiliar: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to search for once it is known whether the query's first word names a signal type.

    `asked` are the folded label values the caller itself gave: the page tells in which dimensions no workflow that
    the caller may see declares any of them.
    """

    constraints: Constraints
    rank: RankQuery
    asked: Mapping[str, frozenset[str]] = field(default_factory=dict)


class SearchStore:
    """Runs searches under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(
        self,
        *,
        query: str,
        plan: Callable[[bool], Plan],
        namespaces: frozenset[str] | None,
        limit: int,
    ) -> SearchPage:
        """Find the best allowed workflows among the visible ones.

        `plan` is called with whether the first word counts as a signal type, which only the catalog can tell; it must
        not block. `namespaces` is what the caller may see, None for everything.

        Raises:
            Unavailable: the database does not answer in time.
        """
        word = first_word(query)

        async def read(connection: Connection) -> SearchPage:
            in_use = await enter(connection, namespaces=namespaces, signal_word=word)
            planned = plan(is_canonical(word) or in_use)
            statement, arguments = search_statement(planned, limit=limit)
            return _page(await connection.fetch(statement, *arguments))

        return await self._database.read(read)


async def enter(connection: Connection, *, namespaces: frozenset[str] | None, signal_word: str = "") -> bool:
    """Make the transaction see these namespaces only; whether the word is a signal type in use there."""
    visible = None if namespaces is None else sorted(namespaces)
    return bool(
        await connection.fetchval("select formulary.enter($1, $2, $3)", visible, signal_word, fold(signal_word))
    )


def search_statement(plan: Plan, *, limit: int) -> tuple[str, list[Any]]:
    """The statement and its arguments."""
    words = searchable_words(plan.rank.text, limit=MAX_RANKED_WORDS)
    arguments = _Arguments()
    word_list = arguments.add(words, "text[]")
    conditions, generic = _conditions(plan.constraints, arguments)
    cosine, can_compare = "null::float8", "false"
    if plan.rank.vector is not None:
        vector, model = arguments.add(plan.rank.vector, "vector"), arguments.add(plan.rank.model_id, "text")
        cosine, can_compare = f"case when model_id = {model} then 1 - (emb <=> {vector}) end", "true"
    unfamiliar = [
        f"case when not exists (select from workflow_search where leading_row and {_column(dimension)} && "
        f"{arguments.add(sorted(values), 'text[]')}) then '{dimension}' end"
        for dimension, values in sorted(plan.asked.items())
    ]
    return (
        _STATEMENT.format(
            unfamiliar=", ".join(unfamiliar),
            words=word_list,
            conditions="\n      and ".join(conditions),
            generic=" + ".join(generic) or "0",
            cosine=cosine,
            can_compare=can_compare,
            limit=arguments.add(limit, "integer"),
        ),
        arguments.values,
    )


_STATEMENT = f"""
with terms as materialized (
    select word, plainto_tsquery('english', word) as term from unnest({{words}}) with ordinality as w(word, position)
    where numnode(plainto_tsquery('english', word)) > 0 order by position
), question as materialized (
    select coalesce(string_agg('(' || term::text || ')', ' | ')::tsquery, ''::tsquery) as terms, count(*) as words
    from terms
), candidates as materialized (
    select version_id, namespace, name, lexemes, ({{generic}})::integer as generic, {{cosine}} as cosine,
           ts_rank(lexemes, (select terms from question))::float8 as lexical
    from workflow_search
    where {{conditions}}
), spread as materialized (
    select count(*) as total,
           min(cosine) as cosine_low, max(cosine) as cosine_high, min(lexical) as lexical_low,
           max(lexical) as lexical_high,
           case when (select words from question) = 0 then '{SearchMode.LABELS_ONLY}'
                when {{can_compare}} and count(cosine) = count(*) then '{SearchMode.HYBRID}'
                else '{SearchMode.LEXICAL}' end as mode
    from candidates
), scored as (
    select candidates.*, round((case mode
        when '{SearchMode.HYBRID}' then 0.5 * scaled_cosine + 0.5 * scaled_lexical
        when '{SearchMode.LEXICAL}' then scaled_lexical
        else 0 end)::numeric, {SCORE_DIGITS})::float8 as score
    from candidates, spread,
    lateral (select
        case when cosine_high > cosine_low then (cosine - cosine_low) / (cosine_high - cosine_low)
             when cosine_high > 0 then 1 else 0 end as scaled_cosine,
        case when lexical_high > lexical_low then (lexical - lexical_low) / (lexical_high - lexical_low)
             when lexical_high > 0 then 1 else 0 end as scaled_lexical) as scaled
), page as (
    select * from scored order by generic, score desc, name, namespace limit {{limit}}
)
select spread.total, spread.mode, (select words from question) as usable_words,
       array_remove(array[{{unfamiliar}}]::text[], null) as unfamiliar,
       page.version_id, page.namespace, page.name, page.generic, page.cosine, page.lexical, page.score,
       version.document,
       array(select word from terms where page.lexemes @@ term) as matched_words
from spread left join page on true left join workflow_version version using (version_id)
order by page.generic, page.score desc, page.name, page.namespace
"""


class _Arguments:
    """Numbers the parameters of a statement."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def add(self, value: Any, kind: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{kind}"


def _conditions(constraints: Constraints, arguments: _Arguments) -> tuple[list[str], list[str]]:
    """The conditions, and for each constrained label the expression that is 1 where the workflow is generic."""
    conditions: list[str] = []
    generic: list[str] = []
    wanted_signals = constraints.values.get("signal_type", frozenset())
    if len(wanted_signals) == 1:
        (signal,) = wanted_signals
        # One row of each workflow: the row of the signal itself, else its `*` or generic row.
        rows = arguments.add([signal, WILDCARD, ""], "text[]")
        exact = arguments.add(signal, "text")
        conditions.append(f"signal_type = any ({rows})")
        conditions.append(f"(signal_type = {exact} or not signal_types && array[{exact}])")
    else:
        conditions.append("leading_row")
    for dimension, wanted in sorted(constraints.values.items()):
        if not wanted:
            continue
        column = _column(dimension)
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


def _column(dimension: str) -> str:
    return "signal_types" if dimension == "signal_type" else dimension


def _page(rows: list[Any]) -> SearchPage:
    head = rows[0]
    return SearchPage(
        candidates=tuple(
            Candidate(
                version_id=row["version_id"],
                document=row["document"],
                namespace=row["namespace"],
                name=row["name"],
                generic_labels=row["generic"],
                cosine=row["cosine"],
                lexical=row["lexical"],
                score=row["score"],
                matched_words=tuple(row["matched_words"]),
            )
            for row in rows
            if row["version_id"] is not None
        ),
        total=head["total"],
        mode=SearchMode(head["mode"]),
        usable_words=head["usable_words"],
        unfamiliar=tuple(head["unfamiliar"]),
    )
