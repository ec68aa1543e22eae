"""Which embedders a server uses: those of the models that the database names, whatever its own setting says."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import BASE, locate
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.runtime.model_loading import Loaded, loading
from formulary_catalog.runtime.model_registry import Embedders
from formulary_catalog.search.parts import CatalogParts
from formulary_catalog.server.calls.readiness import Readiness, ReadinessReport
from formulary_catalog.server.calls.services import Services
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.workflows.reembedding import ReembeddingStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import fill
from support.manifest import workflow
from support.models import Formula
from support.services import open_parts

OWN, LOST = "own@1", "elsewhere@1"


@pytest.fixture
def models(writing: Database) -> ModelStore:
    return ModelStore(writing)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def parts(database: str, metrics: Metrics) -> AsyncIterator[CatalogParts]:
    """Without an embedder yet."""
    async with open_parts(database, metrics=metrics) as opened:
        yield opened


def embedders(parts: CatalogParts, *, own: Loaded) -> Embedders:
    loaded: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
    loaded.set_result(own)
    return Embedders(parts.vectors, models=ModelStore(parts.database), settings=Settings(), own=loaded)


async def report(parts: CatalogParts) -> ReadinessReport:
    return await Readiness().report(Services.on(parts, settings=Settings()))


async def test_a_catalog_without_a_model_is_served_with_that_of_the_settings(parts: CatalogParts) -> None:
    used = embedders(parts, own=Formula(OWN))
    await used.refresh()
    ready = await report(parts)
    assert (ready.status, ready.model, ready.detail, used.problem) == ("ready", OWN, None, None)


async def test_the_model_that_serves_goes_before_that_of_the_settings(
    parts: CatalogParts, models: ModelStore, embedder: Embedder
) -> None:
    await models.adopt(embedder.model_id, source="bundled")
    await embedders(parts, own=Formula(OWN)).refresh()
    assert (await report(parts)).model == embedder.model_id


async def test_a_catalog_of_an_earlier_release_is_served_with_the_base_of_the_bundled_model(
    parts: CatalogParts, models: ModelStore
) -> None:
    base = locate(BASE).id
    await models.adopt(base, source="bundled")
    await embedders(parts, own=Formula(OWN)).refresh()
    ready = await report(parts)
    assert (ready.status, ready.model) == ("ready", base)


async def test_a_server_that_cannot_find_the_model_that_serves_ranks_by_words_and_says_why_until_it_can(
    parts: CatalogParts, models: ModelStore, writing: Database, metrics: Metrics
) -> None:
    await models.adopt(LOST, source="/models/elsewhere")
    used = embedders(parts, own=Formula(OWN))
    await used.refresh()
    ready = await report(parts)
    assert (ready.status, ready.mode, ready.model) == ("degraded", "lexical", "unavailable")
    assert ready.detail is not None
    assert ready.detail.startswith("The catalog is served with the embedding model elsewhere@1, which is not at ")
    assert "'/models/elsewhere'" in ready.detail
    assert b"formulary_embedder_up 0.0" in metrics.exposition()

    change = ReembeddingStore(writing)
    await change.prepare(OWN, source="")
    await change.switch(OWN)
    await used.refresh()
    ready = await report(parts)
    assert (ready.status, ready.mode, ready.model, ready.detail) == ("ready", "hybrid", OWN, None)
    assert b"formulary_embedder_up 1.0" in metrics.exposition()


async def test_a_server_that_cannot_load_what_is_being_prepared_serves_at_once_and_says_so_before_the_change(
    parts: CatalogParts, models: ModelStore, writing: Database
) -> None:
    await models.adopt(OWN, source="")
    await ReembeddingStore(writing).prepare(LOST, source="/models/elsewhere")
    used = embedders(parts, own=Formula(OWN))
    await used.refresh()
    assert (await report(parts)).status == "ready"
    for _ in range(6000):
        await used.refresh()
        if "elsewhere@1, which is not at" in str((await report(parts)).reembedding):
            break
        await asyncio.sleep(0.02)
    else:
        raise AssertionError("it is not told that the model cannot be loaded")
    assert (await report(parts)).status == "ready"


async def test_a_model_whose_loading_crashes_is_one_that_is_not_there() -> None:
    def crash() -> Embedder:
        raise MemoryError

    found = await asyncio.wait_for(loading(crash), timeout=30)
    assert isinstance(found, EmbedderUnavailable)
    assert "MemoryError" in str(found)


async def test_without_any_model_the_reason_is_told(parts: CatalogParts) -> None:
    await embedders(parts, own=EmbedderUnavailable("there is no model here")).refresh()
    ready = await report(parts)
    assert (ready.status, ready.detail) == ("degraded", "there is no model here")


async def test_a_model_that_is_being_prepared_is_used_beside_the_other_and_its_progress_is_told(
    parts: CatalogParts,
    models: ModelStore,
    writing: Database,
    workflows: CatalogWriter,
    metrics: Metrics,
) -> None:
    old, new = Formula(LOST), Formula(OWN)
    await models.adopt(old.model_id, source="")
    (stored,) = await fill(workflows, [workflow("only")], embedder=old)
    change = ReembeddingStore(writing)
    await change.prepare(new.model_id, source="")
    await change.save(new.model_id, vectors={stored.text_hash: new.embed_query("")}, text_hashes={}, done=1, total=7)
    used = embedders(parts, own=new)
    await used.refresh()
    assert parts.vectors.preparing is new
    assert (await report(parts)).reembedding == "own@1: 1 of 7 workflows"
    assert b'formulary_reembedding_workflows{state="done"} 1.0' in metrics.exposition()
    assert b'formulary_reembedding_workflows{state="total"} 7.0' in metrics.exposition()

    assert await change.switch(new.model_id)
    await used.refresh()
    ready = await report(parts)
    assert (ready.model, ready.reembedding) == (new.model_id, None)
    assert b"formulary_reembedding_workflows{" not in metrics.exposition()
