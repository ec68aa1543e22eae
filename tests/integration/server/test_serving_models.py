"""Which embedder a server uses: that of its setting, while the database says that the catalog is served with it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from formulary_catalog.edges.calls.readiness import Readiness, ReadinessReport
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.services import Services
from formulary_catalog.runtime.model_watch import Loaded, ModelWatch, loading
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
from support.models import Formula
from support.reembedding import reembedding
from support.services import open_parts

OWN, OTHER = "own@1", "other@1"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def parts(database: str, metrics: Metrics) -> AsyncIterator[CatalogParts]:
    """Without an embedder yet."""
    async with open_parts(database, metrics=metrics) as opened:
        yield opened


def watch(parts: CatalogParts, *, own: Loaded, retry_seconds: float = 60) -> ModelWatch:
    loaded: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
    loaded.set_result(own)
    models = ModelStore(parts.database)
    return ModelWatch(parts.vectors, models=models, settings=Settings(), own=loaded, retry_seconds=retry_seconds)


async def report(parts: CatalogParts) -> ReadinessReport:
    return await Readiness().report(Services.on(parts, settings=Settings()))


async def test_a_catalog_without_a_model_is_served_with_that_of_the_settings(parts: CatalogParts) -> None:
    used = watch(parts, own=Formula(OWN))
    await used.refresh()
    ready = await report(parts)
    assert (ready.status, ready.model, ready.detail, used.problem) == ("ready", OWN, None, None)


async def test_a_server_with_another_model_than_the_catalog_ranks_by_words_and_says_what_to_run_until_that_is_done(
    parts: CatalogParts, writing: Database, metrics: Metrics
) -> None:
    await ModelStore(writing).adopt(OTHER)
    used = watch(parts, own=Formula(OWN))
    await used.refresh()
    ready = await report(parts)
    assert (ready.status, ready.mode, ready.model) == ("degraded", "lexical", "unavailable")
    assert ready.detail == (
        "The catalog has vectors of the embedding model other@1, and FORMULARY_EMBEDDING_MODEL names own@1; change the "
        "catalog with `formulary reembed --to bundled`, or name the model of the catalog in the setting."
    )
    assert b"formulary_embedder_up 0.0" in metrics.exposition()

    await reembedding(writing, Formula(OWN)).run()
    await used.refresh()
    ready = await report(parts)
    assert (ready.status, ready.mode, ready.model, ready.detail) == ("ready", "hybrid", OWN, None)
    assert b"formulary_embedder_up 1.0" in metrics.exposition()

    await reembedding(writing, Formula(OTHER)).run()
    await used.refresh()
    assert (await report(parts)).mode == "lexical"


async def test_a_model_whose_loading_crashes_is_one_that_is_not_there() -> None:
    def crash() -> Embedder:
        raise MemoryError

    found = await asyncio.wait_for(loading(crash), timeout=30)
    assert isinstance(found, EmbedderUnavailable)
    assert "MemoryError" in str(found)


async def test_without_any_model_the_reason_is_told(parts: CatalogParts) -> None:
    await watch(parts, own=EmbedderUnavailable("there is no model here")).refresh()
    ready = await report(parts)
    assert (ready.status, ready.detail) == ("degraded", "there is no model here")


async def test_a_model_that_could_not_be_loaded_is_loaded_again_later(parts: CatalogParts, embedder: Embedder) -> None:
    await watch(parts, own=EmbedderUnavailable("there is no model here"), retry_seconds=0).refresh()
    assert (await report(parts)).model == embedder.model_id
