"""The embedding models of a catalog: which one serves, which one is being prepared, which one served before; vectors.

The database says so, not the settings of a process: all processes that use one catalog compare vectors of one model,
and a change of it is one commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from formulary_catalog.store.database.connection import Connection, Database

_SWITCHING = 7_204_113_607  # shared by writers of search rows, exclusive for a change of the model of all


class ModelState(StrEnum):
    """What a model is to the catalog; there is at most one in each state."""

    SERVING = "serving"
    PREPARING = "preparing"
    PREVIOUS = "previous"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModel:
    """An embedding model of the catalog.

    `source` is what it can be found by, as in the setting; empty where only its id is known. `done` of `total`
    workflows have a vector of it while it is being prepared.
    """

    model_id: str
    source: str
    state: ModelState
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of a catalog; `serving` is None until there are vectors."""

    serving: EmbeddingModel | None = None
    preparing: EmbeddingModel | None = None
    previous: EmbeddingModel | None = None


class ModelStore:
    """Reads the models of a catalog, and names its first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def models(self) -> Models:
        """The models now.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> Models:
            rows = await connection.fetch("select model_id, source, state, done, total from embedding_model")
            return Models(
                **{row["state"]: EmbeddingModel(**{**row, "state": ModelState(row["state"])}) for row in rows}
            )

        return await self._database.read(read)

    async def adopt(self, model_id: str, *, source: str) -> Models:
        """Serve with this model if none serves yet, and remember what the serving one is found by. The models then.

        Raises:
            Unavailable: the database does not answer.
        """

        async def write(connection: Connection) -> None:
            await connection.execute(
                """
                insert into embedding_model (model_id, source, state)
                select $1, $2, 'serving' where not exists (select from embedding_model where state = 'serving')
                on conflict do nothing
                """,
                model_id,
                source,
            )
            await connection.execute(
                "update embedding_model set source = $2 where model_id = $1 and source = '' and $2 <> ''",
                model_id,
                source,
            )

        known = (await self.models()).serving
        if known is None or (known.model_id == model_id and not known.source):
            await self._database.write(write)
        return await self.models()


async def serving_model(connection: Connection) -> str | None:
    """The id of the model whose vectors search rows carry; None until there are vectors."""
    model_id: str | None = await connection.fetchval("select model_id from embedding_model where state = 'serving'")
    return model_id


async def keep_serving_model(connection: Connection) -> None:
    """Let nobody change the serving model before the transaction has ended; waits while somebody does."""
    await connection.execute("select pg_advisory_xact_lock_shared($1)", _SWITCHING)


async def begin_switch(connection: Connection) -> None:
    """Let nobody write search rows before the transaction has ended; waits for those who do."""
    await connection.execute("select pg_advisory_xact_lock($1)", _SWITCHING)


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
