"""Writes documents in the transaction of their source: of a workflow, of an incident, of a runbook.

A document that says the same as before keeps its vector. One that is new gets the vector of its text if there is one.
`DocumentVectors` says which lack one: `loading/vectors` or the operator embeds them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.knowledge.documents import Document, embedding_text
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.embedding_models import keep_serving_model, save_vectors
from formulary_catalog.store.search.lexemes import WEIGHTS

_COLUMNS = {
    "doc_id": "text",
    "position": "integer",
    "source_file": "text",
    "title": "text",
    "section_title": "text",
    "text": "text",
    "free_text": "boolean",
    "named": "text",
    "mentioned": "text",
    "text_hash": "text",
    **{f"words_{place.name.lower()}": "text" for place in WEIGHTS},
}
_LEXEMES = " || ".join(
    f"setweight(to_tsvector('english', words_{place.name.lower()}), '{weight}')" for place, weight in WEIGHTS.items()
)
_SAVE = f"""
insert into knowledge_document as kept (
    doc_id, tenant_id, namespace, collection, position, source_file, title, section_title, text, free_text, workflows,
    mentions, version_id, trace_id, origin, text_hash, lexemes, model_id, emb)
select doc_id, $1, $2, $3, position, source_file, title, section_title, text, free_text,
       string_to_array(named, ' '), string_to_array(mentioned, ' '), $4, $5, $6, given.text_hash, {_LEXEMES},
       embedding.model_id, embedding.vector
from unnest({", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_COLUMNS.values(), start=7))})
    as given ({", ".join(_COLUMNS)})
left join embedding on embedding.text_hash = given.text_hash
    and embedding.model_id = (select model_id from embedding_model where state = 'serving')
on conflict (doc_id) do update
set position = excluded.position, source_file = excluded.source_file, title = excluded.title,
    section_title = excluded.section_title, text = excluded.text, free_text = excluded.free_text,
    workflows = excluded.workflows, mentions = excluded.mentions, origin = excluded.origin,
    text_hash = excluded.text_hash, lexemes = excluded.lexemes, model_id = excluded.model_id, emb = excluded.emb
"""
_SERVES = "exists (select from embedding_model where state = 'serving' and model_id = $1)"


async def save_documents(
    connection: Connection,
    documents: Sequence[Document],
    *,
    tenant_id: int,
    version_id: str | None = None,
    trace_id: str | None = None,
    origin: str = "",
) -> None:
    """Store the documents of one source, all of one namespace and collection.

    `version_id`, `trace_id` or `origin` is what they go with.
    """
    if not documents:
        return
    rows = [
        (
            each.doc_id,
            position,
            each.source_file,
            each.title,
            each.section_title,
            each.text,
            each.free_text,
            " ".join(sorted(each.workflows)),
            " ".join(sorted(each.mentions)),
            each.text_hash,
            *(texts.get(place, "") for place in WEIGHTS),
        )
        for position, each in enumerate(documents)
        for texts in [each.lexical_texts]
    ]
    first = documents[0]
    columns = [list(column) for column in zip(*rows, strict=True)]
    await connection.execute(
        _SAVE, tenant_id, first.namespace, first.collection, version_id, trace_id, origin, *columns
    )


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
