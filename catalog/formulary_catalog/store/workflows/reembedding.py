"""The change from one embedding model to another: what is missing, the switch, what is left over."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import numpy as np
import numpy.typing as npt

from formulary_catalog.errors import FormularyError, Unavailable
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.embedding_models import begin_switch, save_vectors
from formulary_catalog.store.knowledge.vectors import DocumentVectors, use_document_vectors

SWITCH_SECONDS = 600.0
"""A deadline for the database that leaves time for the switch, which writes every search row."""

_REEMBEDDING = 7_204_113_608  # held by the one process that re-embeds
_PURGED_AT_ONCE = 10_000
_LACKS_VECTOR = """
status = 'Active' and not exists (
    select from embedding where embedding.text_hash = workflow_version.text_hash and embedding.model_id = $1)
"""


class PreparationEnded(FormularyError):
    """Somebody cancelled the preparation of this model, or prepares another one instead."""


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
                    "does; `formulary doctor` shows how far a change of the model is. Wait until it is done, or stop "
                    "it and try again"
                )
            yield

    async def prepare(self, model_id: str, *, source: str) -> bool:
        """Say that this model is being prepared, in place of any other; False if it serves already."""

        async def write(connection: Connection) -> bool:
            await begin_switch(connection)
            state = await connection.fetchval("select state from embedding_model where model_id = $1", model_id)
            if state == "serving":
                return False
            await connection.execute(
                "delete from embedding_model where state = 'preparing' and model_id <> $1", model_id
            )
            await connection.execute(
                """
                insert into embedding_model (model_id, source, state) values ($1, $2, 'preparing')
                on conflict (model_id) do update
                set source = excluded.source, state = 'preparing', changed_at = now(),
                    since = case embedding_model.state when 'preparing' then embedding_model.since else now() end
                """,
                model_id,
                source,
            )
            return True

        return await self._database.write(write)

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
        self,
        model_id: str,
        *,
        vectors: Mapping[str, npt.NDArray[np.float32]],
        text_hashes: Mapping[str, str],
        done: int,
        total: int,
    ) -> None:
        """Store vectors by text hash, the text hashes of workflows by version id, and how far this is.

        Raises:
            PreparationEnded: the model is neither being prepared nor serving any more.
        """

        async def write(connection: Connection) -> None:
            await save_vectors(connection, vectors=vectors, model_id=model_id)
            await connection.executemany(
                "update workflow_version set text_hash = $2 where version_id = $1 and text_hash <> $2",
                list(text_hashes.items()),
            )
            known = await connection.execute(
                """
                update embedding_model set done = $2, total = $3, changed_at = now()
                where model_id = $1 and state in ('preparing', 'serving')
                """,
                model_id,
                done,
                total,
            )
            _require_known(known, model_id=model_id)

        await self._database.write(write)

    async def require_prepared(self, model_id: str) -> None:
        """Check that the model is still being prepared.

        Raises:
            PreparationEnded: it is not.
        """

        async def read(connection: Connection) -> bool:
            prepared = "select exists (select from embedding_model where state = 'preparing' and model_id = $1)"
            return bool(await connection.fetchval(prepared, model_id))

        if not await self._database.read(read):
            raise _ended(model_id)

    async def switch(self, model_id: str, *, without: Sequence[str] = ()) -> bool:
        """Give all search rows the vectors of this model and serve with it, in one transaction; what serves now is the
        previous model then. False, and nothing is done, if a served workflow other than those `without` lacks one.
        Documents get those that there are.

        Searches go on undisturbed meanwhile, writers of workflows wait.

        Raises:
            PreparationEnded: the model is no longer being prepared.
        """

        async def write(connection: Connection) -> bool:
            await begin_switch(connection)
            incomplete = (
                f"select exists (select from workflow_version where {_LACKS_VECTOR} and version_id <> all ($2))"
            )
            if await connection.fetchval(incomplete, model_id, list(without)):
                return False
            state = await connection.fetchval("select state from embedding_model where model_id = $1", model_id)
            if state == "preparing":
                await connection.execute("delete from embedding_model where state = 'previous'")
                for old, new in (("serving", "previous"), ("preparing", "serving")):
                    await connection.execute(
                        "update embedding_model set state = $2, since = now() where state = $1", old, new
                    )
            elif state != "serving":
                raise _ended(model_id)
            await _write_search_rows(connection, model_id=model_id)
            return True

        return await self._database.write(write)

    async def use(self, model_id: str) -> None:
        """Give search rows and documents the vectors of this model, as far as there are any.

        Raises:
            PreparationEnded: it is not the one that serves.
        """

        async def write(connection: Connection) -> None:
            await begin_switch(connection)
            if not await connection.fetchval(
                "select exists (select from embedding_model where state = 'serving' and model_id = $1)", model_id
            ):
                raise _ended(model_id)
            await _write_search_rows(connection, model_id=model_id)

        await self._database.write(write)

    async def cancel(self) -> str:
        """Give up what is being prepared. Its id, empty if there was nothing.

        Its vectors are kept like those of the model before, unless there is another one: it may have been that itself.
        """

        async def write(connection: Connection) -> str:
            await begin_switch(connection)
            kept = await connection.fetchval(
                """
                update embedding_model set state = 'previous', since = now() where state = 'preparing'
                and not exists (select from embedding_model where state = 'previous') returning model_id
                """
            )
            deleted = await connection.fetchval(
                "delete from embedding_model where state = 'preparing' returning model_id"
            )
            return kept or deleted or ""

        return await self._database.write(write)

    async def purge(self) -> int:
        """Delete the vectors of models that are not among the catalog's. How many."""

        async def write(connection: Connection) -> int:
            status = await connection.execute(
                f"""
                delete from embedding where ctid = any (array(
                    select ctid from embedding where model_id <> all (array(select model_id from embedding_model))
                    and exists (select from embedding_model where state = 'serving') limit {_PURGED_AT_ONCE}))
                """
            )
            return int(status.split()[-1])

        purged = 0
        while deleted := await self._database.write(write):
            purged += deleted
        return purged


async def reembedding_runs(connection: asyncpg.Connection) -> bool:
    """Whether some process is re-embedding this catalog."""
    return bool(
        await connection.fetchval(
            """
            select exists (
                select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
                and database = (select oid from pg_database where datname = current_database())
                and (classid::bigint << 32) + objid::bigint = $1)
            """,
            _REEMBEDDING,
        )
    )


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


def _require_known(status: str, *, model_id: str) -> None:
    if status == "UPDATE 0":
        raise _ended(model_id)


def _ended(model_id: str) -> PreparationEnded:
    return PreparationEnded(
        f"the preparation of {model_id} was cancelled, or another model is prepared instead; `formulary doctor` says "
        "which. What was embedded so far is used if you begin again"
    )
