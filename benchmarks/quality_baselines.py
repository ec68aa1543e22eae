"""What ours is measured against: simple rankings of the same allowed candidates, fixed whatever becomes of ours.

The texts and the splitting of words are those that did best in earlier measurements of simple rankings.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import asyncpg
import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.text import searchable_words, split_camel_case, with_split_words
from formulary_catalog.embedding import Embedder

DENSE, LEXICAL, RRF, HYBRID = "dense", "lexical", "RRF 60", "0.5 + 0.5"
_RRF_CONSTANT = 60
_MAX_WORDS = 128
_Scores = npt.NDArray[np.float64]


class Baselines:
    """Ranks the workflows of one catalog: by cosine, by PostgreSQL's `ts_rank` with OR, and by both together."""

    def __init__(
        self,
        *,
        names: Sequence[str],
        vectors: npt.NDArray[np.float32],
        embedder: Embedder,
        connection: "asyncpg.Connection[Any]",
    ) -> None:
        self._place = {name: place for place, name in enumerate(names)}
        self._vectors = vectors
        self._embed = cache(embedder.embed_query)  # a query comes again under other constraints
        self._connection = connection

    @classmethod
    async def of(
        cls, entries: Sequence[CatalogEntry], *, embedder: Embedder, connection: "asyncpg.Connection[Any]"
    ) -> "Baselines":
        """Index the workflows, in a table that lasts as long as the connection."""
        await connection.execute("create temporary table judged (place integer primary key, lexemes tsvector)")
        await connection.executemany(
            "insert into judged values ($1, to_tsvector('english', $2))",
            [(place, _lexical_text(entry)) for place, entry in enumerate(entries)],
        )
        vectors = embedder.embed_documents([_embedded_text(entry) for entry in entries])
        return cls(names=[entry.name for entry in entries], vectors=vectors, embedder=embedder, connection=connection)

    async def rank(self, query: str, *, among: Sequence[str]) -> Mapping[str, list[str]]:
        """The candidates in the order of each baseline. The query comes without what became a label's value."""
        text = with_split_words(query)
        vector = self._embed(text)
        names = sorted(among)
        places = [self._place[name] for name in names]
        cosines = (self._vectors[places] @ vector).astype(np.float64)
        ranks = (await self._lexical(text))[places]
        scores = {
            DENSE: cosines,
            LEXICAL: ranks,
            RRF: _reciprocal(cosines) + np.where(ranks > 0, _reciprocal(ranks), 0),
            HYBRID: 0.5 * _scaled(cosines) + 0.5 * _scaled(ranks),
        }
        return {system: [names[index] for index in np.argsort(-each, kind="stable")] for system, each in scores.items()}

    async def _lexical(self, text: str) -> _Scores:
        rows = await self._connection.fetch(_TS_RANK, searchable_words(text, limit=_MAX_WORDS))
        return np.array([row["rank"] for row in rows], dtype=np.float64)


_TS_RANK = """
with question as (
    select coalesce(string_agg('(' || term::text || ')', ' | ')::tsquery, ''::tsquery) as terms
    from (select plainto_tsquery('english', word) as term from unnest($1::text[]) as word) as term
    where numnode(term) > 0
)
select ts_rank(lexemes, terms)::float8 as rank from judged, question order by place
"""


def _embedded_text(entry: CatalogEntry) -> str:
    description = entry.workflow.spec.description
    return with_split_words(f"{_readable(entry.name)}. {description.when_to_use} {description.what}")


def _lexical_text(entry: CatalogEntry) -> str:
    spec = entry.workflow.spec
    action = " ".join(split_camel_case(spec.action_type))
    return f"{_embedded_text(entry)}\n{with_split_words(' '.join([spec.title, action, *spec.keywords]))}"


def _readable(name: str) -> str:
    return name.replace("-", " ").replace(".", " ")


def _scaled(scores: _Scores) -> _Scores:
    """Min-max over the candidates; nothing is told apart where all are equal."""
    spread = float(np.ptp(scores)) if scores.size else 0.0
    return (scores - scores.min()) / spread if spread else np.zeros_like(scores)


def _reciprocal(scores: _Scores) -> _Scores:
    """One over the constant plus the place of each candidate, places from 1."""
    places = np.empty(scores.size)
    places[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
    return 1 / (_RRF_CONSTANT + places)
