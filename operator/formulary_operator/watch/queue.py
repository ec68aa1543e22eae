"""Objects to reconcile: each once, one worker at a time on it, failures again after a growing pause.

The watch, the resync and the poller of runs add names; the workers of `runtime` take them. Emergencies come first.
While another replica leads, changes of the watch are noted, so that this one goes on where that one ended: a listing of
everything takes seconds, and comparing it more of them.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar

from formulary_operator.api.names import (
    ANALYSES,
    APPROVALS,
    CONTRACTS,
    INCIDENT_SOURCES,
    INVOCATIONS,
    WORKFLOWS,
    Resource,
)

_K = TypeVar("_K", bound=Hashable)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
CATALOG_KINDS = (WORKFLOWS, ANALYSES)
"""What the catalog is made from; without them there is nothing to do."""
RUN_KINDS = (INVOCATIONS, CONTRACTS, APPROVALS)
"""What runs are asked for, governed and approved with."""
SOURCE_KINDS = (INCIDENT_SOURCES,)
"""Where incidents come from beside AIAnalysis objects."""
NOTED_SECONDS = 60.0
"""Longer than a lease is honoured and the next leader starts. What changed before, the former leader has seen."""


class Priority(IntEnum):
    """Which keys go first; within a priority the one that came first."""

    EMERGENCY = 0
    """What runs although it was halted."""
    URGENT = 1
    CHANGED = 2
    COMPARED = 3


def pause_after(failures: int, *, jitter: float) -> float:
    """Seconds until the next try after so many failures in a row; `jitter` in 0..1 spreads the keys."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 16))
    return longest * (0.5 + jitter / 2)


class WorkQueue(Generic[_K]):
    """Belongs to one event loop. A key that is added while it is worked on is worked on once more afterwards."""

    def __init__(self) -> None:
        # A key may be in here twice, the second time with a higher priority; it is queued until the first is taken.
        self._ready: asyncio.PriorityQueue[tuple[Priority, int, _K]] = asyncio.PriorityQueue()
        self._arrivals = itertools.count()
        self._queued: dict[_K, Priority] = {}
        self._running: set[_K] = set()
        self._again: dict[_K, Priority] = {}
        self._pausing: dict[_K, asyncio.TimerHandle] = {}
        self._failures: dict[_K, int] = {}

    def __len__(self) -> int:
        """How many keys wait to be worked on, those in a pause included."""
        return len(self._queued) + len(self._pausing) + len(self._again)

    def __contains__(self, key: _K) -> bool:
        return key in self._queued or key in self._running or key in self._pausing

    def add(self, key: _K, priority: Priority = Priority.CHANGED) -> None:
        """Have a key worked on as soon as its priority allows, whatever pause it is in."""
        self._end_pause(key)
        if key in self._running:
            self._again[key] = min(priority, self._again.get(key, priority))
        elif priority < self._queued.get(key, Priority.COMPARED + 1):
            self._queued[key] = priority
            self._ready.put_nowait((priority, next(self._arrivals), key))

    async def work(self, handle: Callable[[_K], Awaitable[None]], *, failed: Callable[[_K, Exception], None]) -> None:
        """Be one worker, until cancelled. `failed` is called for each failure; the key is tried again."""
        while True:
            _, _, key = await self._ready.get()
            try:
                if self._queued.pop(key, None) is not None:
                    await self._work_on(key, handle, failed=failed)
            finally:
                self._ready.task_done()

    async def settled(self) -> None:
        """Wait until every key has been tried; keys in a pause do not count."""
        await self._ready.join()

    def abandon_pauses(self) -> None:
        """Forget the keys in a pause: the next start looks at everything anyway."""
        for key in list(self._pausing):
            self._end_pause(key)

    async def _work_on(
        self, key: _K, handle: Callable[[_K], Awaitable[None]], *, failed: Callable[[_K, Exception], None]
    ) -> None:
        self._running.add(key)
        try:
            await handle(key)
            self._failures.pop(key, None)
        except Exception as error:
            failed(key, error)
            self._pause(key)
        finally:
            self._running.discard(key)
            if (priority := self._again.pop(key, None)) is not None:
                self.add(key, priority)

    def _pause(self, key: _K) -> None:
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        pause = pause_after(failures, jitter=random.random())
        self._pausing[key] = asyncio.get_running_loop().call_later(pause, self.add, key)

    def _end_pause(self, key: _K) -> None:
        if (timer := self._pausing.pop(key, None)) is not None:
            timer.cancel()


class ObjectKey(NamedTuple):
    """One object; `kind` is the plural of its resource."""

    kind: str
    namespace: str
    name: str


def key_of(resource: Resource, document: Mapping[str, Any]) -> ObjectKey:
    """The key of an object as the API server gave it."""
    metadata = document["metadata"]
    return ObjectKey(resource.plural, metadata["namespace"], metadata["name"])


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
