"""What searches find a workflow by: its rows in the search table and its sections, written and withdrawn.

`store.workflows.writer` calls it within its transactions. The migrations make the table and its indexes.
"""

from collections.abc import Sequence
from typing import Any

import asyncpg
from pgvector import Vector
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.workflows.labels import DIMENSIONS, fold
from formulary_catalog.errors import InvalidManifest
from formulary_catalog.store.database.connection import Connection
from formulary_catalog.store.knowledge.documents import save_documents
from formulary_catalog.store.search.filters import column_of
from formulary_catalog.store.search.lexemes import WEIGHTS

_COLUMNS_BEFORE_TEXTS = (
    *("version_id", "tenant_id", "signal_type", "signal_name", "leading_row", "namespace", "name"),
    *map(column_of, DIMENSIONS),
    *("custom", "detected", "exclusion_text"),
)
_COLUMNS_AFTER_TEXTS = ("model_id", "emb")
_FIRST_TEXT = len(_COLUMNS_BEFORE_TEXTS) + 1
_LEXEMES = " || ".join(
    f"setweight(to_tsvector('english', ${number}), '{weight}')"
    for number, weight in enumerate(WEIGHTS.values(), start=_FIRST_TEXT)
)
_VALUES = (
    *(f"${number}" for number in range(1, _FIRST_TEXT)),
    _LEXEMES,
    *(f"${_FIRST_TEXT + len(WEIGHTS) + number}" for number in range(len(_COLUMNS_AFTER_TEXTS))),
)
_INSERT_SEARCH_ROW = (
    f"insert into workflow_search ({', '.join((*_COLUMNS_BEFORE_TEXTS, 'lexemes', *_COLUMNS_AFTER_TEXTS))}) "
    f"values ({', '.join(_VALUES)})"
)


async def withdraw(connection: Connection, version_ids: Sequence[str | None]) -> None:
    """Let these be found no more, neither they nor their sections."""
    for table in ("workflow_search", "knowledge_document"):
        await connection.execute(f"delete from {table} where version_id = any ($1)", version_ids)


async def write_search_rows(connection: Connection, *, entry: CatalogEntry, tenant_id: int, model_id: str) -> None:
    """Have a workflow found as it is now; one that is suspended is not found.

    Raises:
        InvalidManifest: its labels do not fit into an index.
    """
    if entry.workflow.spec.suspend:
        await withdraw(connection, [entry.version_id])
        return
    await connection.execute("delete from workflow_search where version_id = $1", entry.version_id)
    await _write_documents(connection, entry=entry, tenant_id=tenant_id)
    labels = entry.labels
    vector = await stored_vector(connection, entry=entry, model_id=model_id)
    shared: tuple[Any, ...] = (
        entry.namespace,
        entry.name,
        *(sorted(labels.values.get(dimension, ())) for dimension in DIMENSIONS),
        {key: sorted(values) for key, values in labels.custom.items()},
        dict(labels.detected),
        labels.exclusion_text,
        *(entry.lexical_texts[place] for place in WEIGHTS),
        model_id if vector is not None else None,
        vector,
    )
    signal_names = {fold(name): name for name in entry.workflow.spec.labels.signal_type if fold(name)} or {"": ""}
    rows = [
        (entry.version_id, tenant_id, folded, name, position == 0, *shared)
        for position, (folded, name) in enumerate(sorted(signal_names.items()))
    ]
    try:
        await connection.executemany(_INSERT_SEARCH_ROW, rows)
    except asyncpg.ProgramLimitExceededError as error:
        if not any(entry.labels.values.values()):
            raise
        raise _labels_too_long(entry) from error


def _labels_too_long(entry: CatalogEntry) -> InvalidManifest:
    """The migrations measure all labels, so that a long one is in no index: one of them may have forgotten one."""
    dimension, values = max(entry.labels.values.items(), key=lambda each: sum(len(value.encode()) for value in each[1]))
    field = f"spec.labels.{to_camel(dimension)}"
    return InvalidManifest(
        f"{entry.source}: {field}: the labels are longer together than an index of the database takes; shorten this "
        f"list of {len(values)} values, which is the longest",
        source=entry.source,
        field=field,
    )


async def _write_documents(connection: Connection, *, entry: CatalogEntry, tenant_id: int) -> None:
    documents = entry.documents
    await connection.execute(
        "delete from knowledge_document where version_id = $1 and doc_id <> all ($2)",
        entry.version_id,
        [document.doc_id for document in documents],
    )
    await save_documents(connection, documents, tenant_id=tenant_id, version_id=entry.version_id)


async def stored_vector(connection: Connection, *, entry: CatalogEntry, model_id: str) -> Vector | None:
    """The vector of the entry's text, if one is stored."""
    vector: Vector | None = await connection.fetchval(
        "select vector from embedding where text_hash = $1 and model_id = $2", entry.text_hash, model_id
    )
    return vector
