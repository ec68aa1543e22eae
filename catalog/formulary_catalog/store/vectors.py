"""The vectors that are kept: one for each text and model, whatever happens to the workflows that have the text."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from formulary_catalog.store.database import Connection


async def save_vectors(
    connection: Connection, *, vectors: Mapping[str, npt.NDArray[np.float32]], model_id: str
) -> None:
    """Store vectors, float32 of shape (384,), by text hash; one that is there already stays.

    In the order of the hashes: two who store the same ones wait for each other, and not each for the other.
    """
    await connection.executemany(
        "insert into embedding (text_hash, model_id, vector) values ($1, $2, $3) on conflict do nothing",
        [(text_hash, model_id, vector) for text_hash, vector in sorted(vectors.items())],
    )
