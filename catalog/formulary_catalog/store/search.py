"""The search statement: the label rules of `store.conditions` and the order of `domain.scoring`, in one round trip.

Each constrained label adds one condition, so there is one prepared statement for each shape of request. A property
test holds the scores equal to `scoring.hybrid`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.labels import Constraints, fold
from formulary_catalog.domain.outcome import Outcome
from formulary_catalog.domain.query import first_word, is_canonical
from formulary_catalog.domain.scoring import SCORE_DIGITS, SearchMode
from formulary_catalog.domain.text import searchable_words
from formulary_catalog.store.conditions import Arguments, column_of, label_conditions
from formulary_catalog.store.database import Connection, Database
from formulary_catalog.store.outcomes import outcome_column, outcome_of

MAX_RANKED_WORDS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RankQuery:
    """What to rank by: text, and its vector, float32 of shape (384,), with the model that made it."""

    text: str
    vector: npt.NDArray[np.float32] | None = None
    model_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One allowed workflow on the page, with the parts of its score.

    `ambiguous`: another namespace that the caller may see has an active workflow of that name.
    """

    version_id: str
    document: Mapping[str, Any] = field(repr=False)
    namespace: str
    name: str
    ambiguous: bool
    generic_labels: int
    cosine: float | None
    lexical: float
    score: float
    matched_words: tuple[str, ...]
    outcome: Outcome


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
            planned = plan(is_canonical(word) or (in_use and word != ""))
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
    arguments = Arguments()
    word_list = arguments.add(words, "text[]")
    conditions, generic = label_conditions(plan.constraints, arguments)
    cosine, can_compare = "null::float8", "false"
    if plan.rank.vector is not None:
        vector, model = arguments.add(plan.rank.vector, "vector"), arguments.add(plan.rank.model_id, "text")
        cosine, can_compare = f"case when model_id = {model} then 1 - (emb <=> {vector}) end", "true"
    unfamiliar = [
        f"case when not exists (select from workflow_search where leading_row and {column_of(dimension)} && "
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
    select version_id, signal_type, namespace, name, ({{generic}})::integer as generic, {{cosine}} as cosine,
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
       version.document, exists (
           select from workflow_version other
           where other.name = page.name and other.namespace <> page.namespace and other.status = 'Active') as ambiguous,
       array(select word from terms where row.lexemes @@ term) as matched_words, {outcome_column("page.version_id")}
from spread left join page on true left join workflow_version version using (version_id)
left join workflow_search row on row.version_id = page.version_id and row.signal_type = page.signal_type
order by page.generic, page.score desc, page.name, page.namespace
"""


def _page(rows: list[Any]) -> SearchPage:
    head = rows[0]
    return SearchPage(
        candidates=tuple(
            Candidate(
                version_id=row["version_id"],
                document=row["document"],
                namespace=row["namespace"],
                name=row["name"],
                ambiguous=row["ambiguous"],
                generic_labels=row["generic"],
                cosine=row["cosine"],
                lexical=row["lexical"],
                score=row["score"],
                matched_words=tuple(row["matched_words"]),
                outcome=outcome_of(row["outcome"]),
            )
            for row in rows
            if row["version_id"] is not None
        ),
        total=head["total"],
        mode=SearchMode(head["mode"]),
        usable_words=head["usable_words"],
        unfamiliar=tuple(head["unfamiliar"]),
    )
