"""Queries are embedded beside each other, and beside whatever else keeps threads busy."""

import asyncio
from collections.abc import Iterator
from threading import Barrier, Event

import numpy as np
import numpy.typing as npt
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers import SearchAnswer
from formulary_catalog.domain.request import search_request
from formulary_catalog.domain.scoring import SearchMode
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.vectors import QueryVectors
from formulary_catalog.store.catalog import CatalogWriter
from support import manifest
from support.filling import fill
from support.models import Formula
from support.services import open_service

TEXTS = ("one", "two", "three")


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


async def test_all_texts_are_embedded_by_all_models_at_the_same_time(vectors: QueryVectors) -> None:
    meeting = Barrier(2 * len(TEXTS))
    vectors.use(Meeting("a@1", meeting=meeting), preparing=Meeting("b@1", meeting=meeting))
    given = await vectors.of(TEXTS)
    assert list(given) == list(TEXTS)
    for text, by_model in given.items():
        for model_id in ("a@1", "b@1"):
            assert np.array_equal(by_model[model_id], Formula(model_id).embed_query(text))


async def test_a_query_is_embedded_while_other_work_keeps_the_usual_threads_busy(vectors: QueryVectors) -> None:
    vectors.use(Formula("a@1"))
    over = Event()
    busy = [asyncio.create_task(asyncio.to_thread(over.wait, 60)) for _ in range(64)]
    try:
        given = await asyncio.wait_for(vectors.of(["text"]), timeout=30)
    finally:
        over.set()
        await asyncio.gather(*busy)
    assert given["text"].keys() == {"a@1"}


async def test_a_query_is_embedded_once_however_many_ask_and_however_often(vectors: QueryVectors) -> None:
    embedder = Counting("a@1")
    vectors.use(embedder)
    at_once = await asyncio.gather(*(vectors.of(["text"]) for _ in range(20)))
    later = await vectors.of(["text", "other"])
    assert sorted(embedder.asked) == ["other", "text"]
    assert all(given["text"]["a@1"] is later["text"]["a@1"] for given in at_once)


async def test_what_was_embedded_is_known_while_the_model_fails_and_what_failed_is_asked_again(
    vectors: QueryVectors,
) -> None:
    embedder = Counting("a@1")
    vectors.use(embedder)
    known = await vectors.of(["known"])
    embedder.fails = True
    assert await vectors.of(["known", "new"]) == {**known, "new": {}}
    assert vectors.problem
    embedder.fails = False
    assert (await vectors.of(["new"]))["new"].keys() == {"a@1"}
    assert not vectors.problem


async def test_a_remembered_query_finds_out_that_the_model_works_again(vectors: QueryVectors) -> None:
    embedder = Counting("a@1")
    vectors.use(embedder)
    known = await vectors.of(["known"])
    embedder.fails = True
    await vectors.of(["new"])
    embedder.fails = False
    async with asyncio.timeout(30):
        while vectors.problem:
            assert await vectors.of(["known"]) == known
            await asyncio.sleep(0.01)


async def test_one_query_at_a_time_finds_that_out_however_many_ask(vectors: QueryVectors) -> None:
    embedder = Held("a@1")
    vectors.use(embedder)
    await vectors.of(["known"])
    embedder.fails = True
    await vectors.of(["new"])
    embedder.held.clear()
    for _ in range(50):
        await vectors.of(["known"])
    embedder.held.set()
    await vectors.of(["another"])  # begins when all before it have begun
    assert embedder.asked == ["known", "new", "known", "another"]


async def test_another_model_is_asked_for_its_own_vectors(vectors: QueryVectors) -> None:
    first, second = Counting("a@1"), Counting("a@1")
    vectors.use(first)
    await vectors.of(["text"])
    vectors.use(first, preparing=second)
    await vectors.of(["text"])
    vectors.use(second)
    await vectors.of(["text"])
    assert (first.asked, second.asked) == (["text"], ["text"])
    vectors.use(None)
    assert await vectors.of(["text"]) == {"text": {}}


async def test_who_gives_up_does_not_give_up_for_others(vectors: QueryVectors) -> None:
    meeting = Barrier(2)
    vectors.use(Meeting("a@1", meeting=meeting))
    impatient, patient = asyncio.create_task(vectors.of(["text"])), asyncio.create_task(vectors.of(["text"]))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.to_thread(meeting.wait, 30)
    assert (await patient)["text"].keys() == {"a@1"}
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_a_query_is_embedded_as_its_first_word_was_understood_last(
    workflows: CatalogWriter, database: str
) -> None:
    embedder = Counting("formula@1")
    labels = manifest.workflow("")["spec"]["labels"] | {"signalType": ["Checkoutslow"]}
    await fill(workflows, [manifest.workflow("own", labels=labels), manifest.workflow("other")], embedder=embedder)
    service = await open_service(database, embedder=embedder)

    async def answer(query: str, *, embedded: list[str]) -> SearchAnswer:
        embedder.asked.clear()
        given = await service.search(search_request(query=query), caller=Caller(name="test", access=EVERYTHING))
        assert embedder.asked == embedded
        assert given.search_mode == SearchMode.HYBRID
        return given

    first = await answer("Checkoutslow critical one", embedded=["Checkoutslow critical one", "Checkoutslow one"])
    second = await answer("Checkoutslow critical two", embedded=["Checkoutslow two"])
    assert [hit.workflow_id for hit in first.workflows] == [hit.workflow_id for hit in second.workflows] == ["own"]
    assert len((await answer("restart critical two", embedded=["restart critical two"])).workflows) == 2
    await workflows.suspend(namespace="formulary", name="own")
    third = await answer("Checkoutslow critical three", embedded=["Checkoutslow three", "Checkoutslow critical three"])
    fourth = await answer("Checkoutslow critical four", embedded=["Checkoutslow critical four"])
    assert [hit.workflow_id for hit in third.workflows] == [hit.workflow_id for hit in fourth.workflows] == ["other"]
    await service.close()
