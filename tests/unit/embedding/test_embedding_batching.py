"""Which texts share a run of the model: in a bulk, and when several threads ask at once."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from formulary_catalog.embedding.batching import Batcher, Ids, Shapes, Vectors
from support.waiting import wait_until

SHAPES = Shapes(step=16)
Tokens = list[int]


class Model:
    """Gives the sum of the tokens, once it is let go, and remembers what it was asked together."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.runs: list[list[Tokens]] = []
        self.error: BaseException | None = None

    def run(self, ids: Ids, mask: Ids) -> Vectors:
        texts = [row[keep].tolist() for row, keep in zip(ids, mask == 1, strict=True)]
        self.runs.append(texts)
        assert self.go.wait(timeout=60)
        if self.error is not None:
            raise self.error
        return np.array([[sum(tokens)] for tokens in texts], np.float32)


class Threads:
    """Asks a batcher in threads, one after another: the next begins when this one computes or waits."""

    def __init__(self, model: Model, *, runs: int = 1) -> None:
        self.batcher = Batcher([model.run] * runs, shapes=SHAPES)
        self._pool = ThreadPoolExecutor(max_workers=100)
        self._model = model

    def ask(self, tokens: Tokens) -> "Future[Vectors]":
        return self._submit(partial(self.batcher.vector, tokens))

    def ask_for_all(self, batch: list[Tokens]) -> "Future[Vectors]":
        return self._submit(partial(self.batcher.vectors, batch))

    def _submit(self, ask: Callable[[], Vectors]) -> "Future[Vectors]":
        before = self._under_way()
        future = self._pool.submit(ask)
        wait_until(lambda: self._under_way() > before, what="it to compute or wait")
        return future

    def _under_way(self) -> int:
        return len(self._model.runs) + len(self.batcher._queue)

    def close(self) -> None:
        self._model.go.set()
        self._pool.shutdown()


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def threads(model: Model) -> Iterator[Threads]:
    asking = Threads(model)
    yield asking
    asking.close()


@pytest.mark.parametrize(("length", "filled_up_to"), [(0, 16), (2, 16), (16, 16), (17, 32), (250, 256), (256, 256)])
def test_a_text_is_padded_to_a_multiple_of_the_step(length: int, filled_up_to: int) -> None:
    assert SHAPES.width(length) == filled_up_to


@pytest.mark.parametrize(("length", "padded_to"), [(0, 4), (2, 4), (9, 12), (31, 32), (33, 48), (250, 256)])
def test_only_short_texts_are_padded_to_a_smaller_step(length: int, padded_to: int) -> None:
    assert Shapes(step=4).width(length) == padded_to


def test_texts_are_filled_up_in_width_and_number_and_the_mask_tells_what_is_theirs() -> None:
    ids, mask = SHAPES.padded([[7], [8, 9], [5, 6, 7]])
    assert ids.shape == mask.shape == (4, 16)
    assert [row[keep].tolist() for row, keep in zip(ids, mask == 1, strict=True)] == [[7], [8, 9], [5, 6, 7], [7]]


def test_a_bulk_runs_texts_of_one_width_together_and_each_once() -> None:
    texts = [[1] * length for length in (3, 40, 16, 17, 48, 5)]
    assert sorted(map(sorted, SHAPES.batches(texts))) == [[0, 2, 5], [1, 4], [3]]


@pytest.mark.parametrize(
    ("length", "sizes"),
    [(4, [8] * 8 + [6]), (32, [8] * 8 + [6]), (48, [4] * 17 + [2]), (128, [2] * 35), (600, [1] * 70)],
)
def test_a_batch_is_bounded_in_texts_and_tokens(length: int, sizes: list[int]) -> None:
    assert [len(batch) for batch in SHAPES.batches([[1] * length] * 70)] == sizes


def test_one_that_asks_alone_is_computed_at_once(model: Model, threads: Threads) -> None:
    model.go.set()
    assert threads.batcher.vector([1, 2, 3]).tolist() == [6]
    assert model.runs == [[[1, 2, 3]]]


def test_those_who_wait_with_texts_of_one_width_share_the_next_run(model: Model, threads: Threads) -> None:
    long, longer = [1] * 20, [1] * 30
    first, *waiting = [threads.ask(tokens) for tokens in ([1], [1, 2], long, [3, 4, 5], longer, [5, 6])]
    model.go.set()

    assert first.result().tolist() == [1]
    assert [future.result().tolist() for future in waiting] == [[3], [20], [12], [30], [11]]
    repeated = [1, 2]  # three texts fill a batch of four
    assert model.runs == [[[1]], [[1, 2], [3, 4, 5], [5, 6], repeated], [long, longer]]


def test_a_batch_of_a_bulk_waits_for_its_turn_and_queries_for_theirs(model: Model, threads: Threads) -> None:
    first = threads.ask([1])
    batch = threads.ask_for_all([[2], [3]])
    query = threads.ask([4])
    model.go.set()

    assert [first.result().tolist(), batch.result().tolist(), query.result().tolist()] == [[1], [[2], [3]], [4]]
    assert model.runs == [[[1]], [[2], [3]], [[4]]]


def test_more_wait_than_a_batch_may_hold(model: Model, threads: Threads) -> None:
    futures = [threads.ask([number]) for number in range(70)]
    model.go.set()

    assert [future.result().tolist() for future in futures] == [[number] for number in range(70)]
    assert [len(run) for run in model.runs] == [1] + [8] * 9


def test_as_many_compute_at_once_as_there_are_runs_of_the_model(model: Model) -> None:
    threads = Threads(model, runs=2)
    futures = [threads.ask([number] * length) for number, length in enumerate((1, 20, 40, 3))]
    assert len(model.runs) == 2
    model.go.set()
    assert [future.result().tolist() for future in futures] == [[0], [20], [80], [9]]
    threads.close()


def test_a_query_does_not_wait_for_a_batch_while_another_run_is_idle(model: Model) -> None:
    threads = Threads(model, runs=2)
    threads.ask_for_all([[1], [2]])
    threads.ask([3])
    assert model.runs == [[[1], [2]], [[3]]]
    threads.close()


def test_a_query_waits_for_one_batch_only_however_many_batches_wait(model: Model, threads: Threads) -> None:
    batches = [threads.ask_for_all([[number]]) for number in (1, 2, 3, 4)]
    query = threads.ask([9])
    model.go.set()
    assert query.result().tolist() == [9]
    assert [batch.result().tolist() for batch in batches] == [[[1]], [[2]], [[3]], [[4]]]
    assert model.runs.index([[9]]) == 1


def test_batches_get_their_turn_however_many_queries_wait(model: Model, threads: Threads) -> None:
    queries = [threads.ask([number] * (16 * number + 1)) for number in range(4)]
    batch = threads.ask_for_all([[9]])
    model.go.set()
    assert [query.result().tolist() for query in queries] == [[0], [17], [66], [147]]
    assert batch.result().tolist() == [[9]]
    assert model.runs.index([[9]]) <= 2


def test_no_more_than_one_computes_at_once(model: Model, threads: Threads) -> None:
    futures = [threads.ask([0] * length) for length in (1, 20, 40)]
    assert len(model.runs) == 1
    model.go.set()
    assert all(future.result().tolist() == [0] for future in futures)


def test_a_failed_run_fails_for_all_who_shared_it_and_for_nobody_else(model: Model, threads: Threads) -> None:
    first, *waiting = [threads.ask(tokens) for tokens in ([1], [2, 2], [3, 3])]
    model.error = RuntimeError("broken")
    model.go.set()
    for future in (first, *waiting):
        with pytest.raises(RuntimeError, match="broken"):
            future.result()

    model.error = None
    assert threads.batcher.vector([4, 4]).tolist() == [8]


def test_a_failed_batch_of_a_bulk_hands_its_place_over(model: Model, threads: Threads) -> None:
    batch, query = threads.ask_for_all([[1]]), threads.ask([2])
    model.error = RuntimeError("broken")
    model.go.set()
    for future in (batch, query):
        with pytest.raises(RuntimeError, match="broken"):
            future.result()

    model.error = None
    assert threads.batcher.vector([4]).tolist() == [4]
