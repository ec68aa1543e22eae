"""Which texts go through the model together: only those of equally many tokens, so that nothing is padded."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from threading import Lock

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Tokens = list[int]

_TEXTS = 32
# More tokens at once are not faster here, and 32 texts of 256 tokens would cost 200 MB that are never given back.
_TOKENS = 512


def batches(texts: Sequence[Tokens]) -> Iterator[list[int]]:
    """Positions of the texts to run together, all of them: at most 32 texts and 512 tokens at a time."""
    order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
    for length, group in groupby(order, key=lambda position: len(texts[position])):
        positions = list(group)
        size = _batch_size(length)
        for start in range(0, len(positions), size):
            yield positions[start : start + size]


def _batch_size(length: int) -> int:
    return min(_TEXTS, max(1, _TOKENS // max(1, length)))


@dataclass(eq=False, slots=True)
class _Waiting:
    tokens: Tokens
    answer: Future[Vectors | None] = field(default_factory=Future)
    """The vector out of the batch of another thread; None if it is this one's turn to compute."""


class Batcher:
    """Threads that ask at once: a few compute, each for itself and for all who wait with equally many tokens.

    There is no thread of its own: whoever is done hands its place to the one that has waited longest.
    """

    def __init__(self, run: Callable[[list[Tokens]], Vectors], *, at_once: int) -> None:
        """Compute with `run`, in at most `at_once` of the asking threads."""
        self._run = run
        self._lock = Lock()
        self._places = at_once
        self._queue: deque[_Waiting] = deque()

    def vector(self, tokens: Tokens) -> Vectors:
        """The vector of one text, perhaps a view into that of a batch. Raises what `run` raises."""
        own = _Waiting(tokens)
        with self._lock:
            has_place = self._places > 0
            if has_place:
                self._places -= 1
            else:
                self._queue.append(own)
        if not has_place and (vector := own.answer.result()) is not None:
            return vector
        try:
            return self._compute(tokens, others=self._joining(len(tokens)))
        finally:
            self._hand_over()

    def _compute(self, tokens: Tokens, *, others: Sequence[_Waiting]) -> Vectors:
        try:
            vectors = self._run([tokens, *(other.tokens for other in others)])
        except BaseException as error:  # whatever ends this thread's work must not leave the others waiting
            for other in others:
                other.answer.set_exception(error)
            raise
        for other, vector in zip(others, vectors[1:], strict=True):
            other.answer.set_result(vector)
        own: Vectors = vectors[0]
        return own

    def _joining(self, length: int) -> list[_Waiting]:
        with self._lock:
            joining = [other for other in self._queue if len(other.tokens) == length][: _batch_size(length) - 1]
            for other in joining:
                self._queue.remove(other)
            return joining

    def _hand_over(self) -> None:
        with self._lock:
            if not self._queue:
                self._places += 1
                return
            following = self._queue.popleft()
        following.answer.set_result(None)
