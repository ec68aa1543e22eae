"""What a replica notes of its watch while another one leads, so that it goes on where that one ended.

`runtime` hands it every change of the watch, and says when this replica leads. A listing of everything takes seconds,
and comparing it more of them; what was changed while nobody led is known without.
"""

import time
from collections.abc import Callable

from formulary_operator.watch.queue import ObjectKey, Priority, WorkQueue

NOTED_SECONDS = 60.0
"""Longer than a lease is honoured and the next leader starts. What changed before, the former leader has seen."""


class StandbyNotes:
    """Queues what changes while this replica leads, and what changed shortly before it began to."""

    def __init__(self, queue: WorkQueue[ObjectKey], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue = queue
        self._clock = clock
        self._leads = False
        self._noted: dict[ObjectKey, tuple[float, Priority]] = {}
        """By when they changed, the latest last."""

    def changed(self, key: ObjectKey, priority: Priority) -> None:
        """Queue an object that changed, or note it."""
        if self._leads:
            self._queue.add(key, priority)
            return
        self._noted.pop(key, None)
        self._noted[key] = (self._clock(), priority)
        self._forget()

    def lead(self) -> None:
        """Queue what was noted, and from now on each change."""
        self._leads = True
        self._forget()
        for key, (_, priority) in self._noted.items():
            self._queue.add(key, priority)
        self._noted.clear()

    def rest(self) -> None:
        """Queue nothing more: the next leader will see it."""
        self._leads = False

    def _forget(self) -> None:
        oldest = self._clock() - NOTED_SECONDS
        while self._noted and next(iter(self._noted.values()))[0] < oldest:
            del self._noted[next(iter(self._noted))]
