"""Places for calls that wait: for an incident, a run, a rehearsal. A module of its own: four services of different
layers have one, and `initialize` over stdio must not import more."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class WaitingRoom:
    """`places` for all calls together, `places_each` for those of one caller."""

    def __init__(self, *, places: int, places_each: int) -> None:
        self._places = places
        self._places_each = places_each
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def place(self, caller: str) -> Iterator[bool]:
        """Whether there is one, which is then taken until the end of the block."""
        if self._waiting.total() >= self._places or self._waiting[caller] >= self._places_each:
            yield False
            return
        self._waiting[caller] += 1
        try:
            yield True
        finally:
            self._waiting[caller] -= 1
            self._waiting += Counter()  # forgets those who have left
