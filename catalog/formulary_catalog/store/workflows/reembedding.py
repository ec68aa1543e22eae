"""What lacks a vector of an embedding model, and the switch of a whole catalog to one."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from formulary_catalog.errors import Unavailable
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.embedding_models import begin_switch, save_vectors, serve_with, serving_model
from formulary_catalog.store.knowledge.documents import DocumentVectors, use_document_vectors

SWITCH_SECONDS = 600.0
"""A deadline for the database that leaves time for the switch, which writes every search row."""

_REEMBEDDING = 7_204_113_608  # held by the one process that re-embeds
_PURGED_AT_ONCE = 10_000
_LACKS_VECTOR = """
status = 'Active' and not exists (
    select from embedding where embedding.text_hash = workflow_version.text_hash and embedding.model_id = $1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unembedded:
    """A served workflow that has no vector of the model. `text_hash` is that of the text when it was stored."""

    version_id: str
    namespace: str
    text_hash: str
    document: Mapping[str, Any] = field(repr=False)


class ReembeddingStore:
    """What a re-embedding reads and writes. Operations raise `Unavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.documents = DocumentVectors(database)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only one who re-embeds this catalog, for as long as the process lives.

        Raises:
            Unavailable: another process does, or the database does not answer.
        """
        async with self._database.exclusively(_REEMBEDDING) as alone:
            if not alone:
                raise Unavailable(
                    "another process is re-embedding this catalog, or embeds what had no vector, as `formulary up` "
                    "does. Wait until it is done, or stop it and try again"
                )
            yield

    async def count(self, model_id: str) -> tuple[int, int]:
        """How many of the served workflows have a vector of the model, and how many there are."""

        async def read(connection: Connection) -> tuple[int, int]:
            (row,) = await connection.fetch(
                f"""
                select count(*) filter (where status = 'Active') as total, count(*) filter (where {_LACKS_VECTOR})
                as missing from workflow_version
                """,
                model_id,
            )
            return row["total"] - row["missing"], row["total"]

        return await self._database.read(read)

    async def unranked(self, model_id: str) -> int:
        """How many of the workflows that searches find they cannot rank by meaning; 0 unless this model serves."""

        async def read(connection: Connection) -> int:
            count = """
            select count(*) from workflow_search where leading_row and model_id is distinct from $1
            and exists (select from embedding_model where state = 'serving' and model_id = $1)
            """
            return int(await connection.fetchval(count, model_id))

        return await self._database.read(read)

    async def unembedded(self, model_id: str, *, after: str, limit: int) -> list[Unembedded]:
        """Served workflows without a vector of the model, those after a version id, in the order of ids."""

        async def read(connection: Connection) -> list[Unembedded]:
            rows = await connection.fetch(
                f"""
                select version_id, namespace, text_hash, document from workflow_version
                where version_id > $2 and {_LACKS_VECTOR} order by version_id limit $3
                """,
                model_id,
                after,
                limit,
            )
            return [Unembedded(**row) for row in rows]

        return await self._database.read(read)

    async def save(
        self, model_id: str, *, vectors: Mapping[str, npt.NDArray[np.float32]], text_hashes: Mapping[str, str]
    ) -> None:
        """Store vectors by text hash, and the text hashes of workflows by version id."""

        async def write(connection: Connection) -> None:
            await save_vectors(connection, vectors=vectors, model_id=model_id)
            await connection.executemany(
                "update workflow_version set text_hash = $2 where version_id = $1 and text_hash <> $2",
                list(text_hashes.items()),
            )

        await self._database.write(write)

    async def switch(self, model_id: str, *, without: Sequence[str] = ()) -> bool:
        """Give all search rows the vectors of this model and serve with it, in one transaction. False, and nothing is
        done, if a served workflow other than those `without` lacks one. Documents get those that there are.

        Searches go on meanwhile, writers of workflows wait.
        """

        async def write(connection: Connection) -> bool:
            await begin_switch(connection)
            incomplete = (
                f"select exists (select from workflow_version where {_LACKS_VECTOR} and version_id <> all ($2))"
            )
            if await connection.fetchval(incomplete, model_id, list(without)):
                return False
            await serve_with(connection, model_id)
            await _write_search_rows(connection, model_id=model_id)
            return True

        return await self._database.write(write)

    async def use(self, model_id: str) -> None:
        """Give search rows and documents the vectors of this model, as far as there are any; nothing if it does not
        serve."""

        async def write(connection: Connection) -> None:
            await begin_switch(connection)
            if await serving_model(connection) == model_id:
                await _write_search_rows(connection, model_id=model_id)

        await self._database.write(write)

    async def purge(self) -> int:
        """Delete the vectors of models that do not serve. How many."""

        async def write(connection: Connection) -> int:
            status = await connection.execute(
                f"""
                delete from embedding where ctid = any (array(
                    select ctid from embedding
                    where model_id <> (select model_id from embedding_model where state = 'serving')
                    limit {_PURGED_AT_ONCE}))
                """
            )
            return int(status.split()[-1])

        purged = 0
        while deleted := await self._database.write(write):
            purged += deleted
        return purged


async def _write_search_rows(connection: Connection, *, model_id: str) -> None:
    await connection.execute(
        """
        update workflow_search set model_id = embedding.model_id, emb = embedding.vector
        from workflow_version join embedding using (text_hash)
        where workflow_version.version_id = workflow_search.version_id and embedding.model_id = $1
          and workflow_search.model_id is distinct from $1
        """,
        model_id,
    )
    # What cannot be embedded is found by its words; a vector of another model would never be compared.
    await connection.execute("update workflow_search set model_id = null, emb = null where model_id <> $1", model_id)
    await use_document_vectors(connection, model_id=model_id)
