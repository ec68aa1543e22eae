"""Which texts go through the model together, and in which shapes.

For each shape it is given for the first time, the model's runtime makes kernels and keeps them (some 8 ms, 0.5 MB). So
there are few: a text is filled up to a multiple of 16 tokens, a batch to a power of two.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from threading import Lock

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Tokens = Sequence[int]

TEXTS = 8
"""How many texts run together at most. More are hardly faster, cost memory, and let queries wait longer."""
_TOKENS = 256
_STEP = 16


def width(length: int) -> int:
    """How many tokens a text of that many is filled up to."""
    return max(1, -(-length // _STEP)) * _STEP


def batches(texts: Sequence[Tokens], *, most: int = TEXTS) -> Iterator[list[int]]:
    """Positions of the texts to run together, all of them: of one width, at most so many and 256 tokens at a time."""

    def width_at(position: int) -> int:
        return width(len(texts[position]))

    for wide, group in groupby(sorted(range(len(texts)), key=width_at), key=width_at):
        positions = list(group)
        size = _batch_size(wide, most=most)
        for start in range(0, len(positions), size):
            yield positions[start : start + size]


def padded(texts: Sequence[Tokens]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ids and mask of texts of one width, both of shape (a power of two, that width); rows beyond the texts repeat."""
    shape = 1 << (len(texts) - 1).bit_length(), width(max(map(len, texts)))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row in range(shape[0]):
        tokens = texts[row % len(texts)]
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def _batch_size(wide: int, *, most: int) -> int:
    size = min(most, max(1, _TOKENS // wide))
    return 1 << (size.bit_length() - 1)


@dataclass(eq=False, slots=True)
class _Waiting:
    width: int
    """0 for a batch, which nobody joins."""
    tokens: Tokens
    answer: Future[Vectors | None] = field(default_factory=Future)
    """The vector out of the batch of another thread; None if it is this one's turn to compute."""


class Batcher:
    """Threads that ask at once: one computes, for itself and for all who wait with texts of the same width.

    There is no thread of its own: whoever is done hands its place to the one that has waited longest.
    """

    def __init__(self, run: Callable[[Sequence[Tokens]], Vectors], *, most: int = TEXTS) -> None:
        """Compute with `run`, in one of the asking threads at a time, for at most so many texts together."""
        self._run = run
        self._most = most
        self._lock = Lock()
        self._busy = False
        self._queue: deque[_Waiting] = deque()

    def vector(self, tokens: Tokens) -> Vectors:
        """The vector of one text, perhaps a view into that of a batch. Raises what `run` raises."""
        own = _Waiting(width(len(tokens)), tokens)
        if (vector := self._turn(own)) is not None:
            return vector
        try:
            return self._compute(tokens, others=self._joining(own.width))
        finally:
            self._hand_over()

    def vectors(self, batch: Sequence[Tokens]) -> Vectors:
        """The vectors of texts of one width, when it is their turn. Raises what `run` raises."""
        self._turn(_Waiting(0, []))
        try:
            return self._run(batch)
        finally:
            self._hand_over()

    def _turn(self, own: _Waiting) -> Vectors | None:
        with self._lock:
            if not self._busy:
                self._busy = True
                return None
            self._queue.append(own)
        return own.answer.result()

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

    def _joining(self, wide: int) -> list[_Waiting]:
        with self._lock:
            joining = [other for other in self._queue if other.width == wide][: _batch_size(wide, most=self._most) - 1]
            for other in joining:
                self._queue.remove(other)
            return joining

    def _hand_over(self) -> None:
        with self._lock:
            if not self._queue:
                self._busy = False
                return
            following = self._queue.popleft()
        following.answer.set_result(None)
