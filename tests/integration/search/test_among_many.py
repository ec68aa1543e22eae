"""Among more allowed workflows than are all ranked, a whole name finds the one that has it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from catalogs import Catalog
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.candidates import ALL
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.adversarial import nearby, store, store_embedded
from support.databases import migrated_database
from support.filling import entry
from support.services import open_parts, service_on

SIZE = ALL + 8
EMBEDDED = 40
"""So many of them have vectors of their own; those of the others are near these."""
CALLER = Caller(name="test", access=EVERYTHING)
NAMES = ("rb-4711", "zephyr", "restart-pod", "undo-it", "vg-q3-x9")
"""Of workflows whose texts are like those of many others."""


def _own() -> list[dict[str, Any]]:
    what = "Restarts the pods of a deployment one after the other."
    documents = [manifest.workflow(name, what=what) for name in NAMES]
    for document in documents:
        document["spec"]["description"]["whenToUse"] = "The pods hang and their memory grows."
    return documents


@pytest.fixture(scope="module")
async def many(postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[CatalogService]:
    own, others = [*map(entry, _own())], [each.entries()[-1] for each in Catalog(SIZE).workflows()]
    some = embedder.embed_documents([each.embedding_text for each in others[:EMBEDDED]])
    vectors = nearby(some, number=SIZE)
    async with migrated_database(postgres) as dsn, Database.opened(dsn, role=Role.WRITER, deadline=60) as database:
        writer = CatalogWriter(database)
        await store(own, writer=writer, embedder=embedder)
        await store_embedded(others, vectors=vectors, writer=writer, model_id=embedder.model_id)
        async with open_parts(dsn, embedder=embedder) as parts:
            yield service_on(parts)


@pytest.mark.parametrize("name", NAMES)
async def test_the_whole_name_of_a_workflow_finds_it(many: CatalogService, name: str) -> None:
    answer = await many.search(search_request(query=name), caller=CALLER)
    assert answer.total_results == SIZE + len(_own()) > ALL
    assert name in [hit.workflow_id for hit in answer.workflows]
