"""A change of the embedding model, and the vectors that a catalog serves."""

from collections.abc import Sequence

import asyncpg
import numpy as np
import numpy.typing as npt
from pgvector.asyncpg import register_vector

from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.loading.vectors import Reembedding
from formulary_catalog.store.database.connection import Database
from support.manifest import workflow
from support.models import Formula

A, B, C = "a@1", "b@1", "c@1"
"""Models that are only formulas."""
MANY = 150  # more than are embedded at once


def reembedding(writing: Database, embedder: Embedder) -> Reembedding:
    return Reembedding(writing, embedder=embedder)


async def served_vectors(dsn: str) -> dict[str, tuple[str | None, npt.NDArray[np.float32]]]:
    """Model and vector of each workflow as searches compare them; an empty one where there is none."""
    connection = await asyncpg.connect(dsn)
    try:
        await register_vector(connection)
        rows = await connection.fetch("select name, model_id, emb from formulary.workflow_search where leading_row")
        return {
            row["name"]: (row["model_id"], row["emb"].to_numpy() if row["emb"] else np.empty(0, np.float32))
            for row in rows
        }
    finally:
        await connection.close()


async def served_models(dsn: str) -> set[str | None]:
    return {model_id for model_id, _ in (await served_vectors(dsn)).values()}


def failing_after(texts: int, *, model_id: str = B) -> Formula:
    """A model that fails once so many texts are embedded."""
    left = texts

    def count(portion: Sequence[str]) -> None:
        nonlocal left
        left -= len(portion)
        if left < 0:
            raise EmbedderUnavailable("the model failed")

    return Formula(model_id, before=count)


def many() -> list[dict[str, object]]:
    return [workflow(f"w{number:03}") for number in range(MANY)]
