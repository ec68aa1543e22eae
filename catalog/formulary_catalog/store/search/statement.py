"""The filter of a search and the evidence that it ranks by: one statement over the search table.

The label rules of `filters` decide which workflows are allowed, `candidates` which of them are ranked, and `lexemes`
says where the words of the query occur in those. Where none of many candidates holds a rare word, a second statement
looks for who does. Each constrained label adds a condition, so there is one prepared statement for each shape of
request. `kernel.search.pipeline` calls it, and ranks what it returns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import asyncpg

from formulary_catalog.domain.search.candidates import CandidateEvidence, places
from formulary_catalog.domain.stored import StoredVersion
from formulary_catalog.domain.workflows.labels import (
    EXCLUDING_WHEN_ABSENT,
    NOT_NARROWED,
    UNCONSTRAINED,
    WILDCARD,
    Constraints,
    Narrowing,
)
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, entered_table
from formulary_catalog.store.search.allowed import AllowedVersions
from formulary_catalog.store.search.candidates import ALL, Allowed, by_words, holding, nearest, nearest_of_visible
from formulary_catalog.store.search.distances import Distances, ModelVector
from formulary_catalog.store.search.filters import column_of, label_conditions, narrowing_conditions
from formulary_catalog.store.search.lexemes import Stem, Stems, Texts
from formulary_catalog.store.search.page import stored_version, version_columns

FEW = 24
"""Up to so many allowed workflows, the statement reads the versions of the page too: that saves a round trip."""
_LOOKED_AT = 10_000
"""How many workflows are searched for a label value that no allowed one declares, to note a misspelt one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateQuery:
    """What to look for.

    `words` are the terms to find, `rare` those of them that few texts hold. `vector` is that of the query; None where
    words alone rank. `signal` and `severity` are folded words of the query that may name one; empty where none can.
    `alert` is the first word where `signal` is the cause behind it. `asked` are those values of the constraints that
    the caller gave, folded; `imposed` are those of the incident. `narrowing` has keywords as phrases that
    `text.exclusion_phrase` made. `only`: the version id of the one workflow that is looked for; empty for all.
    """

    constraints: Constraints
    imposed: Constraints = UNCONSTRAINED
    narrowing: Narrowing = NOT_NARROWED
    words: Sequence[str] = ()
    rare: Collection[str] = ()
    vector: ModelVector | None = field(default=None, repr=False)
    signal: str = ""
    severity: str = ""
    alert: str = ""
    asked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The candidates to rank, in no particular order, out of `total` allowed workflows.

    `compared`: how many of the allowed ones have a cosine; None if the question had no vector. `usable`: for each word
    whether the index can hold it; it holds no stop words. `undeclared`: the asked dimensions in which no allowed
    workflow declares what was asked. `signal_declared`: whether an allowed workflow declares the first word of the
    question, its `alert` or else its `signal`. `versions`: those of the page by their ids where few are allowed, else
    empty. `whole` is False if a candidate was withdrawn before its text was read.
    """

    evidence: tuple[CandidateEvidence, ...]
    whole: bool
    total: int
    compared: int | None
    usable: tuple[bool, ...]
    undeclared: tuple[str, ...]
    signal_declared: bool
    versions: Mapping[str, StoredVersion] = field(default_factory=dict, repr=False)

    @property
    def mostly_compared(self) -> bool:
        """Whether cosines can decide: more than half of what is allowed has one, or none was asked for."""
        return self.compared is None or self.total == 0 or 2 * self.compared > self.total


class CandidateReader:
    """Reads candidates under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stems = Stems()
        self._texts = Texts()

    async def read(self, question: CandidateQuery, *, namespaces: frozenset[str] | None) -> Candidates:
        """The candidates among what the caller may see: `namespaces`, None for all.

        Where at most half of the allowed workflows have a vector, none is compared.

        Raises:
            Unavailable: the database does not answer in time.
        """

        return await self._database.read_apart(partial(self._read, question=question, namespaces=namespaces))

    async def unfamiliar(
        self, asked: Mapping[str, frozenset[str]], *, constraints: Constraints, namespaces: frozenset[str] | None
    ) -> tuple[str, ...]:
        """The dimensions in which visible workflows that `constraints` allow declare something, but nothing asked for.

        None of them where there are too many workflows to look through. Where nobody declares anything, a value is not
        misspelt: upstream's CRD knows no signal types. `cluster` counts always, since it excludes those workflows.
        `constraints` are those of the incident: what they forbid must not show, not even by a note that is missing.

        Raises:
            Unavailable: the database does not answer in time.
        """
        unknown = []
        for dimension, values in asked.items():
            arguments = StatementArguments()
            column = column_of(dimension)
            entering = entered_table(arguments, namespaces=namespaces)
            given = arguments.add(sorted(values), "text[]")
            allowed = " and ".join(label_conditions(constraints, arguments).allowed)
            # The search ends at the first workflow that declares it, or at the limit.
            rows = await self._database.fetch(
                f"""
                with {entering}
                select familiar, used from entered, lateral (
                    select exists (
                        select from (
                            select {column} && {given} as declares, row_number() over () as position
                            from workflow_search where {allowed} and entered.word_in_use is not null
                        ) as workflow where declares or position > {_LOOKED_AT}
                    ) as familiar, exists (
                        select from workflow_search
                        where {allowed} and entered.word_in_use is not null and not {column} <@ array['{WILDCARD}']
                    ) as used offset 0
                ) as look
                """,
                *arguments.values,
            )
            if not rows[0]["familiar"] and (rows[0]["used"] or dimension in EXCLUDING_WHEN_ABSENT):
                unknown.append(dimension)
        return tuple(unknown)

    async def _read(
        self, connection: Connection, *, question: CandidateQuery, namespaces: frozenset[str] | None
    ) -> Candidates:
        stems = await self._stems.of(connection, question.words)
        arguments = StatementArguments()
        entering = entered_table(arguments, namespaces=namespaces)
        statement = candidates_statement(question, entering=entering, stems=stems, arguments=arguments)
        rows = await connection.fetch(statement, *arguments.values)
        head = rows[0]
        found = {row["version_id"]: row for row in rows if row["version_id"] is not None}
        terms = [stems[word].lexemes for word in question.words]
        reading = partial(self._evidence, connection, terms=terms, revision=head["revision"], namespaces=namespaces)
        evidence = await reading(found)
        if question.rare and question.vector and head["total"] > ALL:
            holders = await self._holders(connection, question, evidence=evidence, stems=stems, namespaces=namespaces)
            if more := {row["version_id"]: row for row in holders if row["version_id"] not in found}:
                found |= more
                evidence += await reading(more)
        candidates = Candidates(
            evidence=evidence,
            whole=len(evidence) == len(found),
            total=head["total"],
            compared=head["compared"] if question.vector else None,
            usable=tuple(map(bool, terms)),
            undeclared=tuple(head["undeclared"]),
            signal_declared=head["signal_declared"],
            versions={id_: stored_version(row) for id_, row in found.items() if row["ambiguous"] is not None},
        )
        if candidates.mostly_compared:
            return candidates
        return await self._read(connection, question=replace(question, vector=None), namespaces=namespaces)

    async def _holders(
        self,
        connection: Connection,
        question: CandidateQuery,
        *,
        evidence: Sequence[CandidateEvidence],
        stems: Mapping[str, Stem],
        namespaces: frozenset[str] | None,
    ) -> list[asyncpg.Record]:
        """The rows of those that hold a rare word which no candidate holds."""
        arguments = StatementArguments()
        entering = entered_table(arguments, namespaces=namespaces)
        allowed = _allowed(question, arguments)
        lexemes = _missing(question, evidence=evidence, stems=stems, narrow=allowed.rules.narrow)
        if not lexemes:
            return []
        statement = f"""
            with {entering}, {holding(allowed, words=arguments.add(lexemes, "text[]"))}
            select version_id, labels, severity, 1 - distance as cosine, null as ambiguous from pool
        """
        return await connection.fetch(statement, *arguments.values)

    async def _evidence(
        self,
        connection: Connection,
        found: Mapping[str, asyncpg.Record],
        *,
        terms: Sequence[Sequence[str]],
        revision: int,
        namespaces: frozenset[str] | None,
    ) -> tuple[CandidateEvidence, ...]:
        """What speaks for these rows by version id; nothing of what was withdrawn."""
        texts = await self._texts.of(connection, found, terms=terms, revision=revision, namespaces=namespaces)
        return tuple(
            CandidateEvidence(
                version_id=version_id,
                namespace=text.namespace,
                name=text.name,
                labels=found[version_id]["labels"],
                severity=found[version_id]["severity"],
                cosine=found[version_id]["cosine"],
                places=where,
            )
            for (version_id, text), where in zip(texts.items(), places([*texts.values()], terms=terms), strict=True)
        )


def candidates_statement(
    question: CandidateQuery, *, entering: str, stems: Mapping[str, Stem], arguments: StatementArguments
) -> str:
    """The statement, which begins with the common table `entering`; adds its arguments."""
    query = " | ".join(f"({stem})" for word in question.words if (stem := stems[word].query))
    allowed = _allowed(question, arguments)
    if not query or not question.vector:
        tables = by_words(allowed, query=arguments.add(query, "text") if query else None)
    elif allowed.rules.narrow:
        tables = nearest(allowed)
    else:
        tables = nearest_of_visible(allowed)
    return f"""
with {entering}, {tables}
select (select revision from word_revision), summary.*, pool.version_id, pool.labels, pool.severity,
       1 - pool.distance as cosine, page.*
from summary left join pool on true left join lateral (
    -- OFFSET makes it one look-up for each row of the pool, whatever the planner thinks of how many there are.
    select {version_columns("version", allowed=AllowedVersions(question.imposed, arguments))}
    from workflow_version version
    where version_id = pool.version_id and status = 'Active' and summary.total <= {FEW} offset 0
) as page on true
"""


def _missing(
    question: CandidateQuery, *, evidence: Sequence[CandidateEvidence], stems: Mapping[str, Stem], narrow: bool
) -> list[str]:
    """The lexemes of the rare words that no candidate holds.

    Where labels narrow, all visible holders have to be read, of which few may be allowed: only of what has a digit, as
    codes do, since many may hold another word that is unknown to us.
    """
    wanted = [
        (number, word)
        for number, word in enumerate(question.words)
        if word in question.rare and (not narrow or any(map(str.isdigit, word)))
    ]
    absent = [word for number, word in wanted if not any(each.places[number] for each in evidence)]
    return sorted({lexeme for word in absent for lexeme in stems[word].lexemes})


def _allowed(question: CandidateQuery, arguments: StatementArguments) -> Allowed:
    severities = question.constraints.values.get("severity")
    rules = label_conditions(question.constraints, arguments)
    rules.allowed.extend(narrowing_conditions(question.narrowing, arguments))
    if question.only:
        rules.allowed.append(f"version_id = {arguments.add(question.only, 'text')}")
    return Allowed(
        rules=rules,
        distances=Distances(question.vector, arguments),
        signal=arguments.add(question.signal, "text") if question.signal else None,
        # Whether it is declared counts nothing where a severity was asked for.
        severity=arguments.add(question.severity, "text") if question.severity and not severities else None,
        alert=arguments.add(question.alert, "text") if question.alert else None,
        asked=sorted(question.asked),
    )
