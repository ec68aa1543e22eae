"""Writes documents in the transaction of their source: of a workflow, of an incident, of a file.

A document that says the same as before keeps its vector. One that is new gets the vector of its text if there is one;
`vectors` fills in the others beside the serving.
"""

from collections.abc import Collection as AnyOf
from collections.abc import Sequence

from formulary_catalog.domain.knowledge.documents import Collection, Document
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import tenant_of
from formulary_catalog.store.search.lexemes import WEIGHTS
from formulary_catalog.store.workflows.models import keep_serving_model

_COLUMNS = {
    "doc_id": "text",
    "position": "integer",
    "source_file": "text",
    "title": "text",
    "section_title": "text",
    "text": "text",
    "free_text": "boolean",
    "named": "text",
    "text_hash": "text",
    **{f"words_{place.name.lower()}": "text" for place in WEIGHTS},
}
_LEXEMES = " || ".join(
    f"setweight(to_tsvector('english', words_{place.name.lower()}), '{weight}')" for place, weight in WEIGHTS.items()
)
_SAVE = f"""
insert into knowledge_document as kept (
    doc_id, tenant_id, namespace, collection, position, source_file, title, section_title, text, free_text, workflows,
    version_id, trace_id, origin, text_hash, lexemes, model_id, emb)
select doc_id, $1, $2, $3, position, source_file, title, section_title, text, free_text,
       string_to_array(named, ' '), $4, $5, $6, given.text_hash, {_LEXEMES}, embedding.model_id,
       embedding.vector
from unnest({", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_COLUMNS.values(), start=7))})
    as given ({", ".join(_COLUMNS)})
left join embedding on embedding.text_hash = given.text_hash
    and embedding.model_id = (select model_id from embedding_model where state = 'serving')
on conflict (doc_id) do update
set position = excluded.position, source_file = excluded.source_file, title = excluded.title,
    section_title = excluded.section_title, text = excluded.text, free_text = excluded.free_text,
    workflows = excluded.workflows, origin = excluded.origin, text_hash = excluded.text_hash,
    lexemes = excluded.lexemes, model_id = excluded.model_id, emb = excluded.emb
"""


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
            each.text_hash,
            *(each.lexical_texts.get(place, "") for place in WEIGHTS),
        )
        for position, each in enumerate(documents)
    ]
    first = documents[0]
    columns = [list(column) for column in zip(*rows, strict=True)]
    await connection.execute(
        _SAVE, tenant_id, first.namespace, first.collection, version_id, trace_id, origin, *columns
    )


class RunbookWriter:
    """Keeps the runbooks of each origin: a directory, or a ConfigMap."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def replace(
        self,
        origin: str,
        documents: Sequence[Document],
        *,
        namespace: str,
        keep: AnyOf[str] = (),
        remove: bool = True,
    ) -> None:
        """Make the runbooks of an origin what these documents say, all of one namespace.

        `keep` are source files that could not be read: what they gave before stays. Without `remove` all does.

        Raises:
            Unavailable: the database does not answer; nothing was changed.
        """

        async def write(connection: Connection) -> None:
            await keep_serving_model(connection)
            await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 22))", origin)
            await connection.execute(
                """
                delete from knowledge_document
                where $5 and origin = $1 and collection = $2 and doc_id <> all ($3) and source_file <> all ($4)
                """,
                origin,
                Collection.RUNBOOKS,
                [each.doc_id for each in documents],
                list(keep),
                remove,
            )
            tenant_id = await tenant_of(connection, namespace=namespace)
            await save_documents(connection, documents, tenant_id=tenant_id, origin=origin)

        await self._database.write(write)

    async def origins(self, prefix: str) -> set[str]:
        """The origins of runbooks that begin with this.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> set[str]:
            rows = await connection.fetch(
                "select distinct origin from knowledge_document where origin <> '' and starts_with(origin, $1)", prefix
            )
            return {row["origin"] for row in rows}

        return await self._database.read(read)
