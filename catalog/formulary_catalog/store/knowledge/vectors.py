"""Vectors of documents: which texts have none of a model, and giving documents those that there are.

`loading/vectors` embeds what is missing, in the same portions as workflows; the operator does it for itself.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.knowledge.documents import embedding_text
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.embedding_models import keep_serving_model, save_vectors

_SERVES = "exists (select from embedding_model where state = 'serving' and model_id = $1)"


class DocumentVectors:
    """What of the documents lacks a vector. Operations raise `Unavailable` while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def unranked(self, model_id: str) -> int:
        """How many documents cannot be ranked by meaning; 0 unless this model serves."""

        async def read(connection: Connection) -> int:
            count = f"select count(*) from knowledge_document where model_id is distinct from $1 and {_SERVES}"
            return int(await connection.fetchval(count, model_id))

        return await self._database.read(read)

    async def unembedded(self, model_id: str, *, after: str, limit: int) -> dict[str, str]:
        """Texts without a vector of the model by their hash, those after one, in the order of hashes."""

        async def read(connection: Connection) -> dict[str, str]:
            rows = await connection.fetch(
                """
                select distinct on (text_hash) text_hash, title, section_title, text from knowledge_document
                where text_hash > $2 and not exists (
                    select from embedding
                    where embedding.text_hash = knowledge_document.text_hash and embedding.model_id = $1)
                order by text_hash limit $3
                """,
                model_id,
                after,
                limit,
            )
            return {
                row["text_hash"]: embedding_text(
                    title=row["title"], section_title=row["section_title"], text=row["text"]
                )
                for row in rows
            }

        return await self._database.read(read)

    async def save(self, model_id: str, vectors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Store vectors by text hash, and rank by them at once if the model serves."""

        async def write(connection: Connection) -> None:
            await keep_serving_model(connection)
            await save_vectors(connection, vectors=vectors, model_id=model_id)
            await connection.execute(
                f"""
                update knowledge_document set model_id = embedding.model_id, emb = embedding.vector from embedding
                where embedding.text_hash = knowledge_document.text_hash and embedding.model_id = $1
                  and embedding.text_hash = any ($2) and {_SERVES}
                """,
                model_id,
                list(vectors),
            )

        await self._database.write(write)


async def use_document_vectors(connection: Connection, *, model_id: str) -> None:
    """Give documents the vectors of this model, as far as there are any, and none of another one."""
    await connection.execute(
        """
        update knowledge_document set model_id = embedding.model_id, emb = embedding.vector from embedding
        where embedding.text_hash = knowledge_document.text_hash and embedding.model_id = $1
          and knowledge_document.model_id is distinct from $1
        """,
        model_id,
    )
    await connection.execute("update knowledge_document set model_id = null, emb = null where model_id <> $1", model_id)
