"""Queries are embedded beside each other, and beside whatever else keeps threads busy."""

import asyncio
from collections.abc import Iterator
from threading import Barrier, Event

import numpy as np
import numpy.typing as npt
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer, SearchMode
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.kernel.search.vectors import QueryVectors
from formulary_catalog.metrics import Metrics
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.filling import fill
from support.models import Formula
from support.services import open_parts, service_on


class Meeting(Formula):
    """Gives a vector once all who are expected have asked."""

    def __init__(self, model_id: str, *, meeting: Barrier) -> None:
        super().__init__(model_id)
        self._meeting = meeting

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self._meeting.wait(timeout=30)
        return super().embed_query(text)


class Counting(Formula):
    """Notes what it is asked, and fails when it is told to."""

    def __init__(self, model_id: str) -> None:
        super().__init__(model_id)
        self.asked: list[str] = []
        self.fails = False

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self.asked.append(text)
        if self.fails:
            raise EmbedderUnavailable("The model fails on command.")
        return super().embed_query(text)


class Held(Counting):
    """Embeds once it is let go on."""

    def __init__(self, model_id: str) -> None:
        super().__init__(model_id)
        self.held = Event()
        self.held.set()

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        assert self.held.wait(30)
        return super().embed_query(text)


@pytest.fixture
def vectors() -> Iterator[QueryVectors]:
    created = QueryVectors(metrics=Metrics(), at_once=8)
    yield created
    created.close()


async def test_texts_are_embedded_at_the_same_time(vectors: QueryVectors) -> None:
    texts = ("one", "two", "three")
    vectors.use(Meeting("a@1", meeting=Barrier(len(texts))))
    given = await asyncio.gather(*(vectors.of(text) for text in texts))
    for text, vector in zip(texts, given, strict=True):
        assert vector is not None
        assert vector.model_id == "a@1"
        assert np.array_equal(vector.values, Formula("a@1").embed_query(text))


async def test_a_query_is_embedded_while_other_work_keeps_the_usual_threads_busy(vectors: QueryVectors) -> None:
    vectors.use(Formula("a@1"))
    over = Event()
    busy = [asyncio.create_task(asyncio.to_thread(over.wait, 60)) for _ in range(64)]
    try:
        given = await asyncio.wait_for(vectors.of("text"), timeout=30)
    finally:
        over.set()
        await asyncio.gather(*busy)
    assert given is not None


async def test_a_query_is_embedded_once_however_many_ask_and_however_often(vectors: QueryVectors) -> None:
    embedder = Counting("a@1")
    vectors.use(embedder)
    at_once = await asyncio.gather(*(vectors.of("text") for _ in range(20)))
    later = await vectors.of("text")
    await vectors.of("other")
    assert embedder.asked == ["text", "other"]
    assert later is not None
    assert all(given is not None and given.values is later.values for given in at_once)


async def test_what_was_embedded_is_known_while_the_model_fails_and_what_failed_is_asked_again(
    vectors: QueryVectors,
) -> None:
    embedder = Counting("a@1")
    vectors.use(embedder)
    known = await vectors.of("known")
    embedder.fails = True
    assert await vectors.of("known") == known
    assert await vectors.of("new") is None
    assert vectors.problem
    embedder.fails = False
    assert await vectors.of("new") is not None
    assert not vectors.problem


async def test_a_remembered_query_finds_out_that_the_model_works_again(vectors: QueryVectors) -> None:
    embedder = Counting("a@1")
    vectors.use(embedder)
    known = await vectors.of("known")
    embedder.fails = True
    await vectors.of("new")
    embedder.fails = False
    async with asyncio.timeout(30):
        while vectors.problem:
            assert await vectors.of("known") == known
            await asyncio.sleep(0.01)


async def test_one_query_at_a_time_finds_that_out_however_many_ask(vectors: QueryVectors) -> None:
    embedder = Held("a@1")
    vectors.use(embedder)
    await vectors.of("known")
    embedder.fails = True
    await vectors.of("new")
    embedder.held.clear()
    for _ in range(50):
        await vectors.of("known")
    embedder.held.set()
    await vectors.of("another")  # begins when all before it have begun
    assert embedder.asked == ["known", "new", "known", "another"]


async def test_another_model_is_asked_for_its_own_vectors(vectors: QueryVectors) -> None:
    first, second = Counting("a@1"), Counting("a@1")
    vectors.use(first)
    await vectors.of("text")
    vectors.use(second)
    await vectors.of("text")
    assert (first.asked, second.asked) == (["text"], ["text"])
    vectors.use(None)
    assert await vectors.of("text") is None


async def test_who_gives_up_does_not_give_up_for_others(vectors: QueryVectors) -> None:
    meeting = Barrier(2)
    vectors.use(Meeting("a@1", meeting=meeting))
    impatient, patient = asyncio.create_task(vectors.of("text")), asyncio.create_task(vectors.of("text"))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.to_thread(meeting.wait, 30)
    assert await patient is not None
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_a_given_vector_is_taken_for_that_of_the_model_that_serves_and_nothing_is_embedded(
    vectors: QueryVectors,
) -> None:
    embedder = Counting("a@1")
    assert await vectors.of("text", given=(3.0, 4.0)) is None
    vectors.use(embedder)
    given = await vectors.of("text", given=(3.0, 4.0))
    assert given is not None
    assert (given.model_id, given.values.tolist()) == ("a@1", pytest.approx([0.6, 0.8]))
    assert embedder.asked == []


async def test_a_query_is_embedded_once_whatever_workflows_declare_its_first_word(
    workflows: CatalogWriter, database: str
) -> None:
    embedder = Counting("formula@1")
    labels = manifest.workflow("")["spec"]["labels"] | {"signalType": ["CheckoutTooSlow"]}
    await fill(workflows, [manifest.workflow("own", labels=labels), manifest.workflow("other")], embedder=embedder)
    async with open_parts(database, embedder=embedder) as parts:
        service = service_on(parts)

        async def answer(query: str, *, embedded: str) -> SearchAnswer:
            embedder.asked.clear()
            asked = search_request(query=query, top_k=50)
            given = await service.search(asked, caller=Caller(name="test", access=EVERYTHING))
            assert [text.split(" Checkout Too")[0] for text in embedder.asked] == [embedded]
            assert given.search_mode == SearchMode.HYBRID
            assert sorted(hit.workflow_id for hit in given.workflows) == left
            return given

        left = ["other", "own"]
        declared = await answer("CheckoutTooSlow critical one", embedded="CheckoutTooSlow one")
        assert declared.inferred == {"signal_type": "CheckoutTooSlow", "severity": "critical"}
        assert (await answer("restart critical two", embedded="restart critical two")).inferred == {}
        await workflows.suspend(namespace="formulary", name="own")
        left = ["other"]
        assert (await answer("CheckoutTooSlow critical three", embedded="CheckoutTooSlow three")).inferred == {}
