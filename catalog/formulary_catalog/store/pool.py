"""The statement that filters: which workflows are allowed, and the evidence about the most promising of them.

The label rules of `store.conditions` and an exact cosine, in one round trip; `store.texts` knows where the terms of the
query stand. Each constrained label adds a condition, so there is one prepared statement for each shape of request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.evidence import Evidence, places
from formulary_catalog.domain.labels import Constraints
from formulary_catalog.store.conditions import Arguments, column_of, label_conditions
from formulary_catalog.store.database import Connection
from formulary_catalog.store.entering import entered_table
from formulary_catalog.store.page import PageRow, page_columns
from formulary_catalog.store.stems import Stem
from formulary_catalog.store.texts import Texts

POOL = 128
"""How many candidates are ranked in full. Where more are allowed, the pool holds the nearest to the query."""
FEW = 24
"""Where no more are allowed, what a page needs is read with the pool: that costs less than a round trip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to search for once it is known whether the query's first word names a signal type.

    `words` are the terms to look for, `vectors` are those of the query, float32 of shape (384,), by the model that made
    them: two while the catalog changes its model. `asked` are the folded label values the caller itself gave: the pool
    tells which of them no workflow that the caller may see declares.
    """

    constraints: Constraints
    words: Sequence[str] = ()
    vectors: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict, repr=False)
    asked: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The candidates to rank, in no particular order, out of `total` allowed ones.

    `compared` is for how many of the allowed ones there is a cosine, None if the plan had no vector. `usable` says for
    each word whether the index can hold it: it does not hold stop words. `undeclared` are the asked dimensions in which
    no allowed workflow declares what was asked. `word_in_use` is whether the given word is a signal type in use. `rows`
    is what a page needs of the candidates, by version id, where there are few; empty where there are more. The pool is
    not `whole` if one of its candidates ceased to be served before its text was read.
    """

    evidence: tuple[Evidence, ...]
    whole: bool
    total: int
    compared: int | None
    usable: tuple[bool, ...]
    undeclared: tuple[str, ...]
    word_in_use: bool
    rows: Mapping[str, PageRow] = field(default_factory=dict, repr=False)

    @property
    def mostly_compared(self) -> bool:
        """Whether cosines can decide: more than half of what is allowed has one, or none was asked for."""
        return self.compared is None or self.total == 0 or 2 * self.compared > self.total


async def read_pool(
    connection: Connection,
    plan: Plan,
    *,
    stems: Mapping[str, Stem],
    texts: Texts,
    namespaces: frozenset[str] | None,
    signal_word: str = "",
    in_use: bool = False,
) -> Pool:
    """The pool of a search in these namespaces, None for all; `stems` are those of its words.

    `signal_word` is one that may be a signal type, which only the catalog can tell; empty where nobody asks. The plan
    is for it being one or not, as `in_use` says; where that is wrong, nothing is looked for and the pool is empty.
    """
    arguments = Arguments()
    entering = entered_table(arguments, namespaces=namespaces, signal_word=signal_word)
    assumed = "is not null" if not signal_word else "" if in_use else "is false"
    statement = pool_statement(
        plan, entering=entering, when=f"entered.word_in_use {assumed}", stems=stems, arguments=arguments
    )
    rows = await connection.fetch(statement, *arguments.values)
    head = rows[0]
    candidates = {row["version_id"]: row for row in rows if row["version_id"] is not None}
    terms = [stems[word].lexemes for word in plan.words]
    known = await texts.of(connection, candidates, terms=terms, revision=head["revision"], namespaces=namespaces)
    return Pool(
        evidence=tuple(
            Evidence(
                version_id=version_id,
                namespace=text.namespace,
                name=text.name,
                generic_labels=candidates[version_id]["generic"],
                confirmed_labels=candidates[version_id]["confirmed"],
                cosine=candidates[version_id]["cosine"],
                places=found,
            )
            for (version_id, text), found in zip(known.items(), places([*known.values()], terms=terms), strict=True)
        ),
        whole=len(known) == len(candidates),
        total=head["total"],
        compared=head["compared"] if plan.vectors else None,
        usable=tuple(map(bool, terms)),
        undeclared=tuple(head["undeclared"]),
        word_in_use=signal_word != "" and head["word_in_use"],
        rows={id_: PageRow.of(row) for id_, row in candidates.items() if row["ambiguous"] is not None},
    )


def pool_statement(plan: Plan, *, entering: str, when: str, stems: Mapping[str, Stem], arguments: Arguments) -> str:
    """The statement, which begins with `entering` and looks for workflows `when` that holds; adds its arguments."""
    rules = label_conditions(plan.constraints, arguments)
    declared = {
        dimension: f"{column_of(dimension)} && {arguments.add(sorted(values), 'text[]')}"
        for dimension, values in sorted(plan.asked.items())
    }
    columns, order = _order(plan, stems=stems, arguments=arguments)
    columns += [f"{declares} as declares_{dimension}" for dimension, declares in declared.items()]
    undeclared = ", ".join(
        f"case when not coalesce(bool_or(declares_{name}), false) then '{name}' end" for name in declared
    )
    selected = f"""
        select version_id, {rules.counts}, {", ".join(columns)}
        from workflow_search where {" and ".join(rules.allowed)}"""
    statement = f"""
with {entering}, allowed as materialized (
    select found.* from entered, lateral (
        -- The same table twice: what fits into the covering index is read from there, the rest from its rows.
        {selected} and slim and {when}
        union all
        {selected} and not slim and {when}
        offset 0
    ) as found
), summary as materialized (
    select count(*) as total, count(distance) as compared, array_remove(array[{undeclared}]::text[], null) as undeclared
    from allowed
), pool as materialized (
    select version_id, generic, confirmed, distance from allowed order by generic, {order} limit {POOL}
)
select (select word_in_use from entered), (select revision from word_revision), summary.total, summary.compared,
       summary.undeclared, pool.version_id, pool.generic, pool.confirmed, 1 - pool.distance as cosine, page.*
from summary left join pool on true left join lateral (
    -- OFFSET makes it one look-up for each row of the pool, whatever the planner thinks of how many there are.
    select {page_columns("version")} from workflow_version version
    where version_id = pool.version_id and status = 'Active' and summary.total <= {FEW} offset 0
) as page on true
"""
    return statement


def _order(plan: Plan, *, stems: Mapping[str, Stem], arguments: Arguments) -> tuple[list[str], str]:
    """The columns, `distance` among them, and the order by which the pool is chosen: by meaning, words or name."""
    distance = f"{_distance(plan.vectors, arguments)} as distance"
    words = [f"({query})" for word in plan.words if (query := stems[word].query)]
    if not words:
        return [distance, "name", "namespace"], "confirmed desc, name, namespace"
    if plan.vectors:
        return [distance], "distance, version_id"
    question = arguments.add(" | ".join(words), "text")
    lexical = f"ts_rank(lexemes, {question}::tsquery) as lexical"
    return [distance, lexical, "name", "namespace"], "lexical desc, name, namespace"


def _distance(vectors: Mapping[str, npt.NDArray[np.float32]], arguments: Arguments) -> str:
    """From the query to a row, by the model that the row's vector is of; null where that is none of these."""
    if not vectors:
        return "null::float8"
    by_model = " ".join(
        f"when {arguments.add(model_id, 'text')} then emb <=> {arguments.add(vector, 'vector')}"
        for model_id, vector in vectors.items()
    )
    distance = f"case model_id {by_model} end"
    if len(vectors) == 1:
        return distance
    # Distances of two models say nothing about each other, should a row have been left behind.
    return f"case when model_id = (select model_id from embedding_model where state = 'serving') then {distance} end"
