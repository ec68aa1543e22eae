"""Reads documents under row-level security and the constraints of the incident.

Every statement here begins with the same tables: the workflows that are allowed, by the rules of a search, and the
documents that may be read with them. So no question counts, finds or compares what another one would hide.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import asyncpg

from formulary_catalog.domain.knowledge.documents import Collection
from formulary_catalog.domain.search.candidates import CandidateEvidence, IndexedText, indexed_text, places
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import StatementArguments, enter
from formulary_catalog.store.search.distances import Distances, ModelVector
from formulary_catalog.store.search.filters import label_conditions
from formulary_catalog.store.search.lexemes import WEIGHTS, Stems

NEAREST = 128
"""How many documents are ranked: the nearest to the query, and as many of those that hold most of its words."""
PREVIEWED = 400
"""Characters of a text that are read to be shown in part."""
_PLACES = (WordPlace.NAME, WordPlace.WHAT)
_NAMED = 500
"""How many ids or addresses are looked through for those near an unknown one."""
_BEGINNING, _MAX_WORDS = 3, 6
_ENTER_INCIDENTS = """
select set_config('formulary.incident_namespaces',
                  coalesce($1::text[], array(select namespace from tenant))::text, true)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentScope:
    """What one call may read. `namespaces`, None for all, are visible; those of `incidents` with the free text of their
    incidents. `constraints` are those of the incident of the call; `collection` is empty for all."""

    namespaces: frozenset[str] | None
    incidents: frozenset[str] | None
    constraints: Constraints
    collection: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuery:
    """What to look for: words, and a vector if there is one. `other_than` is a source that is left out."""

    words: Sequence[str]
    vector: ModelVector | None = field(default=None, repr=False)
    other_than: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDocument:
    """A document as answers show it; of a candidate only the beginning of its `text`."""

    doc_id: str
    collection: Collection
    source_file: str
    section_title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCandidates:
    """The documents to rank out of `total` readable ones. `compared`: whether cosines can decide."""

    evidence: tuple[CandidateEvidence, ...]
    usable: tuple[bool, ...]
    total: int
    compared: bool
    shown: Mapping[str, FoundDocument] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionCount:
    """How many documents of a collection may be read, and how many of them have a vector."""

    name: Collection
    documents: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """One document, with the title of its source and its vector, if it has one."""

    found: FoundDocument
    title: str
    vector: ModelVector | None = field(repr=False)


class DocumentReader:
    """Reads what a call may see. Operations raise `Unavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stems = Stems()

    async def candidates(self, question: DocumentQuery, *, scope: DocumentScope) -> DocumentCandidates:
        """The documents that may be right, in no particular order.

        Where at most half of the readable ones have a vector, none is compared.
        """

        async def read(connection: Connection) -> DocumentCandidates:
            stems = await self._stems.of(connection, question.words)
            terms = [stems[word].lexemes for word in question.words]
            query = " | ".join(f"({stem})" for word in question.words if (stem := stems[word].query))
            await _enter(connection, scope)
            total, compared, rows = await _pool(connection, question, scope=scope, query=query)
            texts = [_indexed(row) for row in rows]
            return DocumentCandidates(
                evidence=tuple(
                    CandidateEvidence(
                        version_id=row["doc_id"],
                        namespace=row["namespace"],
                        name=row["doc_id"],
                        labels=0.0,
                        severity=0.0,
                        cosine=None if row["distance"] is None else 1 - row["distance"],
                        places=where,
                    )
                    for row, where in zip(rows, places(texts, terms=terms), strict=True)
                ),
                usable=tuple(map(bool, terms)),
                total=total,
                compared=compared,
                shown={row["doc_id"]: _found(row) for row in rows},
            )

        return await self._database.read(read)

    async def document(self, doc_id: str, *, scope: DocumentScope) -> StoredDocument | None:
        """One document by its id, or by `source_file#section`; None if there is none that may be read."""
        source, _, section = doc_id.partition("#")

        async def read(connection: Connection) -> StoredDocument | None:
            await _enter(connection, scope)
            arguments = StatementArguments()
            readable = _readable(scope, arguments)
            row = await connection.fetchrow(
                f"""
                with {readable}
                select doc_id, collection, source_file, title, section_title, text, model_id, emb from readable
                where doc_id = {arguments.add(doc_id, "text")}
                   or source_file = {arguments.add(source, "text")}
                      and split_part(doc_id, '#', 2) = {arguments.add(section, "text")}
                order by position, doc_id limit 1
                """,
                *arguments.values,
            )
            if row is None:
                return None
            vector = ModelVector(row["model_id"], row["emb"].to_numpy()) if row["emb"] is not None else None
            return StoredDocument(found=_found(row), title=row["title"], vector=vector)

        return await self._database.read(read)

    async def ids(self, *, beginning: str, scope: DocumentScope) -> list[str]:
        """Ids that may be read, those that begin so first."""

        async def read(connection: Connection) -> list[str]:
            await _enter(connection, scope)
            arguments = StatementArguments()
            readable = _readable(scope, arguments)
            first = f"starts_with(doc_id, {arguments.add(beginning, 'text')})"
            rows = await connection.fetch(
                f"with {readable} select doc_id from readable order by {first} desc, doc_id limit {_NAMED}",
                *arguments.values,
            )
            return [row["doc_id"] for row in rows]

        return await self._database.read(read)

    async def addresses(self, *, alike: str, scope: DocumentScope) -> list[str]:
        """`source_file#section` of what may be read, those first whose source has most beginnings of words of a name.

        The first letters of a word are seldom misspelt.
        """
        beginnings = sorted({word[:_BEGINNING] for word in re.findall("[a-z0-9]+", alike)})[:_MAX_WORDS]

        async def read(connection: Connection) -> list[str]:
            await _enter(connection, scope)
            arguments = StatementArguments()
            readable = _readable(scope, arguments)
            shared = " + ".join(
                f"(strpos(source_words, {arguments.add(f'/{each}', 'text')}) > 0)::integer" for each in beginnings
            )
            rows = await connection.fetch(
                f"""
                with {readable}, named as (
                    select source_file || '#' || split_part(doc_id, '#', 2) as address,
                           '/' || translate(lower(source_file), '-._@', '////') as source_words from readable
                )
                select address from named order by {shared or "0::integer"} desc, address limit {_NAMED}
                """,
                *arguments.values,
            )
            return [row["address"] for row in rows]

        return await self._database.read(read)

    async def collections(self, *, scope: DocumentScope) -> list[CollectionCount]:
        """All collections, those without documents too."""

        async def read(connection: Connection) -> list[CollectionCount]:
            await _enter(connection, scope)
            arguments = StatementArguments()
            rows = await connection.fetch(
                f"""
                with {_readable(scope, arguments)}
                select collection, count(*) as documents, count(emb) as vectors from readable group by collection
                """,
                *arguments.values,
            )
            counts = {row["collection"]: (row["documents"], row["vectors"]) for row in rows}
            return [
                CollectionCount(name=each, documents=documents, vectors=vectors)
                for each in Collection
                for documents, vectors in [counts.get(each, (0, 0))]
            ]

        return await self._database.read(read)


async def _enter(connection: Connection, scope: DocumentScope) -> None:
    await enter(connection, namespaces=scope.namespaces)
    incidents = None if scope.incidents is None else sorted(scope.incidents)
    await connection.fetchval(_ENTER_INCIDENTS, incidents)


def _readable(scope: DocumentScope, arguments: StatementArguments) -> str:
    """The tables `allowed` and `readable`, of which the second is what every question is about."""
    conditions = " and ".join(label_conditions(scope.constraints, arguments).allowed)
    of_collection = f"and collection = {arguments.add(scope.collection, 'text')}" if scope.collection else ""
    return f"""
allowed as materialized (
    select version_id, namespace, name from workflow_search where {conditions}
), names as materialized (
    select name as known from allowed union select namespace || '/' || name from allowed
), readable as (
    select document.* from knowledge_document as document
    where (version_id is null or version_id in (select version_id from allowed))
      and (workflows = '{{}}' or not exists (
          select from unnest(workflows) as named where named not in (select known from names))) {of_collection}
)"""


async def _pool(
    connection: Connection, question: DocumentQuery, *, scope: DocumentScope, query: str
) -> tuple[int, bool, list[asyncpg.Record]]:
    """How many documents are readable, whether cosines can decide, and the candidates."""
    arguments = StatementArguments()
    readable = _readable(scope, arguments)
    distance = Distances(question.vector, arguments).exact
    others = f"split_part(doc_id, '#', 1) <> {arguments.add(question.other_than, 'text')}"
    words = arguments.add(query, "text")
    held = ", ".join(
        f"tsvector_to_array(ts_filter(lexemes, '{{{WEIGHTS[place]}}}')) as place_{place:d}" for place in _PLACES
    )
    rows = await connection.fetch(
        f"""
        with {readable}, measured as materialized (
            select doc_id, {distance} as distance,
                   case when {words} <> '' then ts_rank(lexemes, {words}::tsquery) else 0 end as lexical
            from readable where {others}
        ), summary as (
            select count(*) as total, count(distance) as compared from measured
        ), pool as (
            (select doc_id, distance from measured where distance is not null order by distance, doc_id limit {NEAREST})
            union
            (select doc_id, distance from measured where lexical > 0 order by lexical desc, doc_id limit {NEAREST})
        )
        select summary.*, pool.doc_id, pool.distance, namespace, collection, source_file, section_title,
               left(text, {PREVIEWED}) as text, {held}
        from summary left join pool on true left join knowledge_document using (doc_id)
        """,
        *arguments.values,
    )
    total, compared = rows[0]["total"], rows[0]["compared"]
    found = [row for row in rows if row["doc_id"] is not None]
    return total, question.vector is not None and 2 * compared > total, found


def _indexed(row: asyncpg.Record) -> IndexedText:
    return indexed_text(
        namespace=row["namespace"],
        name=row["doc_id"],
        lexemes={place: row[f"place_{place:d}"] for place in _PLACES},
    )


def _found(row: asyncpg.Record) -> FoundDocument:
    return FoundDocument(
        doc_id=row["doc_id"],
        collection=Collection(row["collection"]),
        source_file=row["source_file"],
        section_title=row["section_title"],
        text=row["text"],
    )
