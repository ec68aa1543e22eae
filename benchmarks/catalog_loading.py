"""Two ways of a generated catalog into a database: as manifests come in, and in bulk where that would take hours."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import Any

import asyncpg
from pgvector.asyncpg import register_vector

from catalogs import Catalog
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.domain.workflows.labels import DIMENSIONS, fold
from formulary_catalog.store.search.filters import column_of
from formulary_catalog.store.workflows.writer import CatalogWriter
from text_vectors import Vectors, noisy

_CHUNK = 2_000
_PROCESSES = 2
_WEIGHTS = {WordPlace.NAME: "A", WordPlace.WHEN_TO_USE: "B", WordPlace.WHAT: "C", WordPlace.SIGNAL: "D"}
_VERSION_COLUMNS = (
    *("version_id", "tenant_id", "namespace", "name", "version", "content_hash", "text_hash", "index_hash", "status"),
    *("source", "document"),
)
_SEARCH_COLUMNS = (
    *("version_id", "tenant_id", "signal_type", "signal_name", "leading_row", "namespace", "name"),
    *map(column_of, DIMENSIONS),
    *("custom", "detected", "exclusion_text", "model_id", "emb"),
)
_EMBEDDING_COLUMNS = ("text_hash", "model_id", "vector")
_COPIED = ", ".join(_SEARCH_COLUMNS)
_LEXEMES = " || ".join(
    f"setweight(to_tsvector('english', texts[{position}]), '{weight}')"
    for position, weight in enumerate(_WEIGHTS.values(), start=1)
)
_STAGING = f"create temporary table staging as select {_COPIED}, array[name] as texts from workflow_search with no data"
_INSERT = f"insert into workflow_search ({_COPIED}, lexemes) select {_COPIED}, {_LEXEMES} from staging"


@dataclass(slots=True)
class Portion:
    """Rows of some workflows, as they are copied; `embedded` by the hash of its text."""

    versions: list[tuple[Any, ...]] = field(default_factory=list)
    embedded: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    searched: list[tuple[Any, ...]] = field(default_factory=list)


async def apply_catalog(catalog: Catalog, *, text_vectors: Vectors, writer: CatalogWriter, model_id: str) -> None:
    """Write every version as the operator does, one after the other."""
    for planned in catalog.workflows():
        vector = noisy(text_vectors[planned.text], seed=(catalog.seed, planned.number))
        for entry in planned.entries():
            await writer.apply(entry, model_id=model_id, vector=vector)


async def copy_catalog(catalog: Catalog, *, text_vectors: Vectors, dsn: str, model_id: str) -> None:
    """Write the rows that `apply_catalog` leaves, in bulk, as the superuser of the DSN; a test holds the two equal."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "formulary, public"})
    try:
        await register_vector(connection)
        await connection.executemany(
            "insert into tenant (namespace) values ($1)", [(name,) for name in catalog.tenants]
        )
        tenants = {row["namespace"]: row["id"] for row in await connection.fetch("select id, namespace from tenant")}
        await connection.execute(_STAGING)
        make = partial(_portion, catalog=catalog, text_vectors=text_vectors, tenants=tenants, model_id=model_id)
        async for portion in _portions(make, size=catalog.size):
            await _copy(connection, portion)
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()


async def _portions(make: Callable[[range], Portion], *, size: int) -> AsyncIterator[Portion]:
    """All workflows in order, made in processes beside this one, a little ahead of what is written."""
    loop = asyncio.get_running_loop()
    numbers = iter([range(start, min(start + _CHUNK, size)) for start in range(0, size, _CHUNK)])
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
        ahead = deque(loop.run_in_executor(pool, make, each) for each in islice(numbers, _PROCESSES + 1))
        while ahead:
            portion = await ahead.popleft()
            ahead.extend(loop.run_in_executor(pool, make, each) for each in islice(numbers, 1))
            yield portion


def _portion(
    numbers: range, *, catalog: Catalog, text_vectors: Vectors, tenants: Mapping[str, int], model_id: str
) -> Portion:
    portion = Portion()
    for number in numbers:
        planned = catalog.workflow(number)
        vector = noisy(text_vectors[planned.text], seed=(catalog.seed, number))
        tenant_id = tenants[planned.namespace]
        *earlier, served = planned.entries()
        portion.versions += [_version_row(entry, tenant_id=tenant_id, status="Superseded") for entry in earlier]
        portion.versions.append(_version_row(served, tenant_id=tenant_id, status="Active"))
        portion.embedded |= {entry.text_hash: (entry.text_hash, model_id, vector) for entry in (*earlier, served)}
        portion.searched += _search_rows(served, tenant_id=tenant_id, model_id=model_id, vector=vector)
    return portion


async def _copy(connection: "asyncpg.Connection[asyncpg.Record]", portion: Portion) -> None:
    embedded = list(portion.embedded.values())
    await connection.copy_records_to_table("workflow_version", records=portion.versions, columns=_VERSION_COLUMNS)
    await connection.copy_records_to_table("embedding", records=embedded, columns=_EMBEDDING_COLUMNS)
    await connection.copy_records_to_table("staging", records=portion.searched, columns=(*_SEARCH_COLUMNS, "texts"))
    await connection.execute(_INSERT)
    await connection.execute("truncate staging")


def _version_row(entry: CatalogEntry, *, tenant_id: int, status: str) -> tuple[Any, ...]:
    return (
        *(entry.version_id, tenant_id, entry.namespace, entry.name, entry.version, entry.content_hash),
        *(entry.text_hash, entry.index_hash, status, entry.source, json.dumps(dict(entry.document))),
    )


def _search_rows(entry: CatalogEntry, *, tenant_id: int, model_id: str, vector: Vectors) -> Iterator[tuple[Any, ...]]:
    labels = entry.labels
    shared = (
        *(entry.namespace, entry.name, *(sorted(labels.values.get(dimension, ())) for dimension in DIMENSIONS)),
        *(
            json.dumps({key: sorted(values) for key, values in labels.custom.items()}),
            json.dumps(dict(labels.detected)),
        ),
        *(labels.exclusion_text, model_id, vector, [entry.lexical_texts[place] for place in _WEIGHTS]),
    )
    names = {fold(name): name for name in entry.workflow.spec.labels.signal_type} or {"": ""}
    for position, (folded, name) in enumerate(sorted(names.items())):
        yield entry.version_id, tenant_id, folded, name, position == 0, *shared
