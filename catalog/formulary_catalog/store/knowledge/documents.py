"""Writes documents in the transaction of their source: of a workflow, of an incident, of a runbook.

A document that says the same as before keeps its vector. One that is new gets the vector of its text if there is one;
`vectors` fills in the others beside the serving.
"""

from collections.abc import Sequence

from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.store.database.connection import Connection
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
