"""The operator's embedder is in memory while it is needed and no longer; vectors and their model stay the same."""

import asyncio
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.local import LocalEmbedder
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings
from formulary_operator.workflows.embedding import Embedding
from support.models import Formula
from support.reembedding import reembedding
from support.waiting import wait_until

TEXT = "The container was OOMKilled."


@pytest.fixture
def models(writing: Database) -> ModelStore:
    """The models of a catalog that has none yet."""
    return ModelStore(writing)


def embedding(models: ModelStore, *, model: str = "bundled", idle_seconds: float = 60) -> Embedding:
    settings = OperatorSettings(embedding_model=model)
    return Embedding(settings, models=models, metrics=OperatorMetrics(), idle_seconds=idle_seconds)


async def vector(asked: Embedding, text: str = TEXT) -> npt.NDArray[np.float32] | None:
    """As a reconciliation asks for it."""
    return await asked.vector(text, model_id=await asked.model_id())


def holds_model(asked: Embedding) -> bool:
    """Whether it keeps a model in memory."""
    return any(isinstance(each, LocalEmbedder) for each in vars(asked).values())


async def test_the_model_is_named_without_being_loaded(models: ModelStore, embedder: Embedder) -> None:
    idle = embedding(models)

    assert await idle.model_id() == embedder.model_id
    assert not holds_model(idle)


async def test_the_embedder_is_given_back_when_idle_and_loaded_again_for_the_next_text(
    models: ModelStore, embedder: Embedder
) -> None:
    busy = embedding(models, idle_seconds=0)
    first = await vector(busy)
    await asyncio.to_thread(wait_until, lambda: not holds_model(busy), what="it to be given back")
    again = await vector(busy)

    (expected,) = embedder.embed_documents([TEXT])
    assert first is not None
    assert again is not None
    assert np.array_equal(first, expected)
    assert np.array_equal(again, expected)
    assert await busy.model_id() == embedder.model_id


async def test_a_standby_keeps_the_embedder_until_it_leads(models: ModelStore) -> None:
    standby = embedding(models, idle_seconds=0)
    await standby.warm_up()
    await asyncio.sleep(0.05)
    assert holds_model(standby)

    standby.cool_down()
    await asyncio.to_thread(wait_until, lambda: not holds_model(standby), what="it to be given back")


async def test_the_embedder_stays_between_texts_that_follow_each_other(models: ModelStore) -> None:
    busy = embedding(models)
    await vector(busy)

    assert holds_model(busy)


async def test_texts_at_the_same_time_share_one_embedder(models: ModelStore, embedder: Embedder) -> None:
    busy = embedding(models)
    vectors = await asyncio.gather(*(vector(busy, f"{TEXT} {number}") for number in range(4)))

    expected = embedder.embed_documents([f"{TEXT} {number}" for number in range(4)])
    assert np.array_equal(np.array(vectors), expected)


async def test_without_a_model_there_are_no_vectors_and_a_reason(models: ModelStore, tmp_path: Path) -> None:
    lost = embedding(models, model=str(tmp_path))

    assert await vector(lost) is None
    assert await lost.model_id() == ""
    assert lost.problem is not None
    assert str(tmp_path) in str(lost.problem)


async def test_the_model_of_the_settings_becomes_that_of_a_catalog_which_has_none(
    models: ModelStore, embedder: Embedder
) -> None:
    assert await embedding(models).model_id() == embedder.model_id
    assert await models.serving() == embedder.model_id


async def test_there_are_vectors_only_while_the_catalog_is_served_with_the_model_of_the_settings(
    models: ModelStore, writing: Database, embedder: Embedder
) -> None:
    busy = embedding(models)
    await vector(busy)
    await reembedding(writing, Formula("other@1")).run()
    assert await busy.model_id() == ""
    assert await vector(busy) is None
    assert "`formulary reembed --to bundled`" in str(busy.problem)

    await reembedding(writing, embedder).run()
    assert await busy.model_id() == embedder.model_id
    assert busy.problem is None
    assert await vector(busy) is not None
    assert await busy.vector(TEXT, model_id="other@1") is None, "a vector of another model must not be taken for it"


async def test_an_environment_that_no_connection_can_be_made_with_is_a_reason_like_others(
    models: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    lost = embedding(models, model="tei+http://192.0.2.1")
    assert await vector(lost) is None
    assert "SSL_CERT_FILE" in str(lost.problem)
