"""What the lexical index holds of a workflow or a word: asked of PostgreSQL once, remembered if not long.

`store.search.statement` and the reader of documents ask it where the words of a query occur; the writers take the
weights. PostgreSQL alone decides on stems, so words are never stemmed here in another way.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import asyncpg
from cachetools import LRUCache

from formulary_catalog.domain.search.candidates import IndexedText, indexed_text
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.store.database.connection import Connection
from formulary_catalog.store.database.tenancy import StatementArguments, entered_table

WEIGHTS = {WordPlace.NAME: "A", WordPlace.WHEN_TO_USE: "B", WordPlace.WHAT: "C", WordPlace.SIGNAL: "D"}
"""How the index marks the lexemes of each field."""
_CAPACITY = 12 * 1024**2
"""Bytes of what is remembered, 3 to 6 KB of a usual workflow."""
_BYTES_OF_A_LEXEME = 72
_LONG = 500
"""Of a text with more lexemes only those are read that are asked for, and it is read each time."""
_STEMS = 16_384


class Texts:
    """Workflows as the lexical index has them. For the event loop's thread alone.

    A version id identifies its content, and the revision for the way in which lexemes are derived from contents: with
    another one, everything is read again.
    """

    def __init__(self) -> None:
        self._known: LRUCache[str, IndexedText] = LRUCache(maxsize=_CAPACITY, getsizeof=_size)
        self._revision = 0

    async def of(
        self,
        connection: Connection,
        version_ids: Collection[str],
        *,
        terms: Sequence[Sequence[str]],
        revision: int,
        namespaces: frozenset[str] | None,
    ) -> Mapping[str, IndexedText]:
        """The texts of these workflows by version id, in the same order, with the lexemes of the terms at least.

        Nothing of one that is no longer served. `revision` is what the database returned before.
        """
        if revision != self._revision:
            self._known.clear()
            self._revision = revision
        texts = {each: text for each in version_ids if (text := self._known.get(each)) is not None}
        unknown = [each for each in version_ids if each not in texts]
        if not unknown:
            return texts
        rows = await _read(
            connection, unknown, lexemes={each for term in terms for each in term}, namespaces=namespaces
        )
        read = {row["version_id"]: _text(row) for row in rows}
        if revision == self._revision:  # else somebody has seen a newer one meanwhile
            self._known.update({row["version_id"]: read[row["version_id"]] for row in rows if row["whole"]})
        return {each: text for each in version_ids if (text := texts.get(each) or read.get(each)) is not None}


async def _read(
    connection: Connection, version_ids: Sequence[str], *, lexemes: Collection[str], namespaces: frozenset[str] | None
) -> list[asyncpg.Record]:
    arguments = StatementArguments()
    entering = entered_table(arguments, namespaces=namespaces)
    wanted, asked = arguments.add(version_ids, "text[]"), arguments.add(sorted(lexemes), "text[]")
    by_place = {place: f"tsvector_to_array(ts_filter(lexemes, '{{{weight}}}'))" for place, weight in WEIGHTS.items()}
    columns = ", ".join(
        f"case when length(lexemes) <= {_LONG} then {held} "
        f"else array(select unnest({held}) intersect select unnest({asked})) end as place_{place:d}"
        for place, held in by_place.items()
    )
    return await connection.fetch(
        f"""
        with {entering}
        select text.* from entered, unnest({wanted}) as wanted, lateral (
            -- One look-up for each. A workflow has a row for each of its signal types, all with the same lexemes.
            select version_id, namespace, name, length(lexemes) <= {_LONG} as whole, {columns}
            from workflow_search where version_id = wanted and entered.word_in_use is not null limit 1
        ) as text
        """,
        *arguments.values,
    )


def _text(row: asyncpg.Record) -> IndexedText:
    return indexed_text(
        namespace=row["namespace"],
        name=row["name"],
        lexemes={place: row[f"place_{place:d}"] for place in WEIGHTS},
    )


def _size(text: IndexedText) -> int:
    """About as many bytes as it takes, had it no lexeme in common with others."""
    return sum(_BYTES_OF_A_LEXEME + len(lexeme) for lexeme in text.fields)


@dataclass(frozen=True, slots=True)
class Stem:
    """A word, or several, as `tsquery` in text and as its lexemes; empty for what the index does not hold, such as
    stop words."""

    query: str
    lexemes: tuple[str, ...]


class Stems:
    """Words as the lexical index has them. For the event loop's thread alone."""

    def __init__(self) -> None:
        self._known: LRUCache[str, Stem] = LRUCache(maxsize=_STEMS)

    async def of(self, connection: Connection, words: Sequence[str]) -> Mapping[str, Stem]:
        """The stem of each word."""
        stems = {word: stem for word in words if (stem := self._known.get(word)) is not None}
        if unknown := [word for word in words if word not in stems]:
            rows = await connection.fetch(
                "select word, plainto_tsquery('english', word)::text as query, "
                "tsvector_to_array(to_tsvector('english', word)) as lexemes from unnest($1::text[]) as given(word)",
                unknown,
            )
            stems |= {row["word"]: Stem(row["query"], tuple(row["lexemes"])) for row in rows}
            self._known.update(stems)
        return stems
