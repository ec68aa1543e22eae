"""The catalogs that benchmarks run on: the same each time, and in bulk just what the product would have stored."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import islice

import asyncpg
import numpy as np
import pytest

from catalog_loading import apply_catalog, copy_catalog
from catalogs import LARGEST, Catalog
from floor import Floor
from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from scale_subject import Subject, nearest_of, prepared
from support.databases import migrated_database
from text_vectors import Vectors
from workload import CLASSES, QueryClass, questions

SIZE = 1_000
QUESTIONS_EACH = 5
TABLES = {
    "workflow_version": "name, version",
    "workflow_search": "name, signal_type",
    "embedding": "text_hash",
}
_PASSING = "array['tenant_id', 'created_at', 'changed_at']"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog(SIZE)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One catalog in two databases."""

    applied: str
    copied: str


@pytest.fixture(scope="module")
async def stored(postgres: EmbeddedPostgres, catalog: Catalog, embedder: Embedder) -> AsyncIterator[Stored]:
    """The catalog as manifests come in, and in bulk. What the sentences mean does not matter here."""
    vectors = _directions(len(catalog.sentences))
    model_id = embedder.model_id
    async with migrated_database(postgres) as applied, migrated_database(postgres) as copied:
        async with Database.opened(applied, role=Role.WRITER, deadline=60) as database:
            await apply_catalog(catalog, text_vectors=vectors, writer=CatalogWriter(database), model_id=model_id)
        await copy_catalog(catalog, text_vectors=vectors, dsn=copied, model_id=model_id)
        yield Stored(applied=applied, copied=copied)


def test_a_catalog_is_the_same_for_the_same_seed(catalog: Catalog) -> None:
    again = Catalog(SIZE)
    assert list(islice(again.workflows(), 50)) == list(islice(catalog.workflows(), 50))
    assert Catalog(SIZE, seed=6).workflow(0) != catalog.workflow(0)


def test_one_tenant_owns_half_and_earlier_versions_are_kept(catalog: Catalog) -> None:
    workflows = list(catalog.workflows())
    assert 0.45 < sum(each.namespace == LARGEST for each in workflows) / SIZE < 0.55
    assert 0.2 < sum(len(each.documents) > 1 for each in workflows) / SIZE < 0.3
    assert len({(each.namespace, each.documents[-1]["metadata"]["name"]) for each in workflows}) == SIZE


@pytest.mark.parametrize("table", TABLES)
async def test_rows_copied_in_bulk_equal_those_of_applied_manifests(stored: Stored, table: str) -> None:
    applied, copied = [await _rows(dsn, table=table) for dsn in (stored.applied, stored.copied)]
    assert len(applied) >= SIZE
    assert applied == copied


@pytest.mark.parametrize("wanted", CLASSES, ids=lambda wanted: wanted.name)
async def test_both_databases_give_the_exact_best_that_numpy_finds(
    stored: Stored, catalog: Catalog, embedder: Embedder, wanted: QueryClass
) -> None:
    asked = prepared(questions(catalog, wanted, count=QUESTIONS_EACH), embedder=embedder)
    floor = await Floor.of(stored.copied)
    for dsn in (stored.applied, stored.copied):
        async with Database.opened(dsn, role=Role.SERVER, size=1, deadline=60) as database:
            subject = Subject(database, floor=floor)
            for each in asked:
                found, right = await subject.candidates(each), subject.exact(each)
                assert found.total == right.total > 0
                assert nearest_of(found) == list(right.version_ids)
                assert subject.scanned(each).version_ids == right.version_ids


async def _rows(dsn: str, *, table: str) -> Sequence[str]:
    """The rows of a table as JSON, without what differs between databases of the same content."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "formulary, public"})
    try:
        rows = await connection.fetch(
            f"select (to_jsonb({table}) - {_PASSING})::text as row from {table} order by {TABLES[table]}"
        )
    finally:
        await connection.close()
    return [row["row"] for row in rows]


def _directions(count: int) -> Vectors:
    vectors = np.random.default_rng(1).standard_normal((count, VECTOR_DIMENSIONS), np.float32)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
