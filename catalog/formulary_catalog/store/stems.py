"""What the lexical index holds of a word: asked of PostgreSQL once for each word, remembered from then on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from formulary_catalog.store.database import Connection

_CAPACITY = 16_384


@dataclass(frozen=True, slots=True)
class Stem:
    """A word, or several, as `tsquery` in text and as its lexemes; empty for what the index does not hold, such as
    stop words."""

    query: str
    lexemes: tuple[str, ...]


class Stems:
    """Words as the lexical index has them. For the event loop's thread alone."""

    def __init__(self) -> None:
        self._known: LRUCache[str, Stem] = LRUCache(maxsize=_CAPACITY)

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
