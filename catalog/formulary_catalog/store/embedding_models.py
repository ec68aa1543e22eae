"""The embedding model that a catalog is served with, and storing vectors.

The database says which one, not the settings of a process: all processes that use one catalog compare vectors of one
model, and a change of it is one commit.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from formulary_catalog.store.database.connection import Connection, Database

_SWITCHING = 7_204_113_607  # shared by writers of search rows, exclusive for a change of the model of all


class ModelStore:
    """Reads the model of a catalog, and names its first. Operations raise `Unavailable` without a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def serving(self) -> str:
        """The id of the model whose vectors search rows carry; empty until there are vectors."""

        async def read(connection: Connection) -> str:
            return await serving_model(connection) or ""

        return await self._database.read(read)

    async def adopt(self, model_id: str) -> str:
        """Serve with this model if none serves yet. The id of the one that serves then."""

        async def write(connection: Connection) -> None:
            await connection.execute("delete from embedding_model where state <> 'serving'")
            await connection.execute(
                """
                insert into embedding_model (model_id, state)
                select $1, 'serving' where not exists (select from embedding_model where state = 'serving')
                on conflict do nothing
                """,
                model_id,
            )

        if serving := await self.serving():
            return serving
        await self._database.write(write)
        return await self.serving()


async def serving_model(connection: Connection) -> str | None:
    """The id of the model whose vectors search rows carry; None until there are vectors."""
    model_id: str | None = await connection.fetchval("select model_id from embedding_model where state = 'serving'")
    return model_id


async def serve_with(connection: Connection, model_id: str) -> None:
    """Make this the model that the catalog is served with."""
    await connection.execute("delete from embedding_model where model_id <> $1 or state <> 'serving'", model_id)
    await connection.execute(
        "insert into embedding_model (model_id, state) values ($1, 'serving') on conflict do nothing", model_id
    )


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
