"""The operator's embedder is in memory while it is needed and no longer; vectors and their model stay the same."""

import asyncio
from pathlib import Path

import numpy as np

from formulary_catalog.embedding import Embedder
from formulary_operator.embedding import Embedding
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings
from support.operator_process import wait_until

TEXT = "The container was OOMKilled."


def embedding(*, model: str = "bundled", idle_seconds: float = 60) -> Embedding:
    return Embedding(OperatorSettings(embedding_model=model), metrics=OperatorMetrics(), idle_seconds=idle_seconds)


async def test_the_model_is_named_without_being_loaded(embedder: Embedder) -> None:
    idle = embedding()

    assert await idle.model_id() == embedder.model_id
    assert not idle.is_loaded


async def test_the_embedder_is_given_back_when_idle_and_loaded_again_for_the_next_text(embedder: Embedder) -> None:
    busy = embedding(idle_seconds=0)
    first = await busy.vector(TEXT)
    await asyncio.to_thread(wait_until, lambda: not busy.is_loaded, what="it to be given back")
    again = await busy.vector(TEXT)

    (expected,) = embedder.embed_documents([TEXT])
    assert first is not None
    assert again is not None
    assert np.array_equal(first, expected)
    assert np.array_equal(again, expected)
    assert await busy.model_id() == embedder.model_id


async def test_the_embedder_stays_between_texts_that_follow_each_other() -> None:
    busy = embedding()
    await busy.vector(TEXT)

    assert busy.is_loaded


async def test_texts_at_the_same_time_share_one_embedder(embedder: Embedder) -> None:
    busy = embedding()
    vectors = await asyncio.gather(*(busy.vector(f"{TEXT} {number}") for number in range(4)))

    expected = embedder.embed_documents([f"{TEXT} {number}" for number in range(4)])
    assert np.array_equal(np.array(vectors), expected)


async def test_without_a_model_there_are_no_vectors_and_a_reason(tmp_path: Path) -> None:
    lost = embedding(model=str(tmp_path))

    assert await lost.vector(TEXT) is None
    assert await lost.model_id() == ""
    assert lost.problem is not None
    assert str(tmp_path) in str(lost.problem)
