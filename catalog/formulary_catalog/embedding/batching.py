"""Which texts go through the model together, and in which shapes. Called by `local` for every query and document.

The model's runtime makes kernels for each shape that it meets for the first time, and keeps them. So there are few
shapes: a text is padded to a multiple of a few tokens, a batch to a power of two.
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

Ids = npt.NDArray[np.int64]
Run = Callable[[Ids, Ids], Vectors]
"""Runs the model once: ids and mask, both (texts, tokens), to vectors (texts, 384)."""

TEXTS = 8
"""How many texts run together at most. More are hardly faster, cost memory, and let queries wait longer."""
_TOKENS = 256
_SHORT, _LONG_STEP = 32, 16


@dataclass(frozen=True)
class Shapes:
    """The shapes that the model is run in.

    `step` is the multiple of tokens that texts of up to 32 tokens are padded to, most queries among them; longer ones
    are padded to a multiple of 16. `most` is the largest number of texts in a batch.
    """

    step: int
    most: int = TEXTS

    def width(self, length: int) -> int:
        """Padded width, in tokens, of a text of `length` tokens. It depends on nothing else."""
        step = self.step if length <= _SHORT else _LONG_STEP
        return max(1, -(-length // step)) * step

    def batch_size(self, width: int) -> int:
        """Largest number of texts of this width in a batch: a power of two, of at most 256 tokens in all."""
        size = min(self.most, max(1, _TOKENS // width))
        return 1 << (size.bit_length() - 1)

    def batches(self, texts: Sequence[Tokens]) -> Iterator[list[int]]:
        """Positions of the texts to run together, each once: texts of one batch have one width."""

        def width_at(position: int) -> int:
            return self.width(len(texts[position]))

        for width, group in groupby(sorted(range(len(texts)), key=width_at), key=width_at):
            positions = list(group)
            size = self.batch_size(width)
            for start in range(0, len(positions), size):
                yield positions[start : start + size]

    def padded(self, texts: Sequence[Tokens]) -> tuple[Ids, Ids]:
        """Ids and mask of texts of one width, both (a power of two, that width); rows beyond the texts repeat."""
        shape = 1 << (len(texts) - 1).bit_length(), self.width(max(map(len, texts)))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row in range(shape[0]):
            tokens = texts[row % len(texts)]
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        return ids, mask


@dataclass(eq=False, slots=True)
class _Waiting:
    width: int
    """0 for a batch of documents, which no query joins."""
    tokens: Tokens
    answer: Future[Run | Vectors] = field(default_factory=Future)
    """The vector, computed in another thread; or the model, when it is this thread's turn."""


class Batcher:
    """Threads that ask at once: each computes for itself and for all that wait with texts of the same width.

    As many threads compute at the same time as there are `runs` of the model. The batcher has no thread of its own: a
    thread that is done hands its run to the thread that has waited longest.
    """

    def __init__(self, runs: Sequence[Run], *, shapes: Shapes) -> None:
        """Compute with these runs of the model, each in one thread at a time."""
        self._idle = list(runs)
        self._shapes = shapes
        self._lock = Lock()
        self._queue: deque[_Waiting] = deque()
        self._query_is_next = True

    def vector(self, tokens: Tokens) -> Vectors:
        """The vector of one text, perhaps a view into that of a batch. Raises what the model raises."""
        own = _Waiting(self._shapes.width(len(tokens)), tokens)
        turn = self._turn(own)
        if isinstance(turn, np.ndarray):
            return turn
        try:
            return self._compute(turn, tokens, others=self._joining(own.width))
        finally:
            self._hand_over(turn)

    def vectors(self, batch: Sequence[Tokens]) -> Vectors:
        """The vectors of texts of one width, when it is their turn. Raises what the model raises."""
        turn = self._turn(_Waiting(0, []))
        assert not isinstance(turn, np.ndarray)  # no other thread computes a batch
        try:
            return self._vectors(turn, batch)
        finally:
            self._hand_over(turn)

    def _turn(self, own: _Waiting) -> Run | Vectors:
        with self._lock:
            if self._idle:
                self._query_is_next = not own.width
                return self._idle.pop()
            self._queue.append(own)
        return own.answer.result()

    def _compute(self, run: Run, tokens: Tokens, *, others: Sequence[_Waiting]) -> Vectors:
        try:
            vectors = self._vectors(run, [tokens, *(other.tokens for other in others)])
        except BaseException as error:  # whatever ends this thread's work must not leave the others waiting
            for other in others:
                other.answer.set_exception(error)
            raise
        for other, vector in zip(others, vectors[1:], strict=True):
            other.answer.set_result(vector)
        own: Vectors = vectors[0]
        return own

    def _vectors(self, run: Run, texts: Sequence[Tokens]) -> Vectors:
        return run(*self._shapes.padded(texts))[: len(texts)]

    def _joining(self, width: int) -> list[_Waiting]:
        with self._lock:
            size = self._shapes.batch_size(width) - 1
            joining = [other for other in self._queue if other.width == width][:size]
            for other in joining:
                self._queue.remove(other)
            return joining

    def _hand_over(self, run: Run) -> None:
        with self._lock:
            if not self._queue:
                self._idle.append(run)
                return
            following = self._following()
        following.answer.set_result(run)

    def _following(self) -> _Waiting:
        """The caller whose turn it is: the oldest query and the oldest batch by turns, so that neither waits for all
        of the other kind."""
        following = next((each for each in self._queue if bool(each.width) is self._query_is_next), self._queue[0])
        self._query_is_next = not following.width
        self._queue.remove(following)
        return following
