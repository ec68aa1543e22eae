"""Answers of the API server on callers: kept for a short while, and asked for once by all who ask at the same time."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cachetools import LRUCache, TTLCache

from formulary_catalog.errors import Unavailable

LASTING_SECONDS = 30.0
"""How long a granted right outlives its withdrawal at most; long enough that a conversation asks once."""
BRIEF_SECONDS = 5.0
"""How long a right that was just granted may still be denied."""

QUESTIONS_AT_ONCE = 16
OF_ONE_ASKER = 4
"""How many of those are for one asker at most."""
_RENEWALS_AT_ONCE = 8
_V = TypeVar("_V")

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[_V]):
    """An answer, and whether it is kept for the longer time, as what grants something is."""

    value: _V
    lasting: bool


@dataclass(slots=True)
class _Asker:
    """A caller that questions are asked for. With its slots taken, its further questions wait for them alone."""

    questions: int = 0
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OF_ONE_ASKER))


class ReviewCache(Generic[_V]):
    """Decisions by question. Brief ones are kept apart: however many there are, they push no lasting one out.

    One asker has a part of the questions under way, so that it cannot crowd out others. A question whose answer was
    lasting before has slots of its own. Errors are never kept. `waiting` questions may be under way or wait for it, of
    one asker `waiting_each`; each for `patience` seconds.
    """

    def __init__(
        self,
        *,
        clock: Clock = time.monotonic,
        capacity: int = 4096,
        waiting: int = 1000,
        waiting_each: int = 50,
        patience: float = 5.0,
    ) -> None:
        self._waiting, self._waiting_each, self._patience = waiting, waiting_each, patience
        self._lasting: TTLCache[Hashable, Decision[_V]] = TTLCache(capacity, ttl=LASTING_SECONDS, timer=clock)
        self._brief: TTLCache[Hashable, Decision[_V]] = TTLCache(capacity, ttl=BRIEF_SECONDS, timer=clock)
        self._asking: dict[Hashable, asyncio.Task[_V]] = {}
        self._granted_before: LRUCache[Hashable, bool] = LRUCache(capacity)
        self._askers: defaultdict[Hashable, _Asker] = defaultdict(_Asker)
        self._slots = asyncio.Semaphore(QUESTIONS_AT_ONCE)
        self._slots_for_renewals = asyncio.Semaphore(_RENEWALS_AT_ONCE)

    def knows(self, question: Hashable) -> bool:
        """Whether the question has an answer that is kept, or had one that granted something."""
        return question in self._lasting or question in self._brief or question in self._granted_before

    async def decide(self, question: Hashable, ask: Callable[[], Awaitable[Decision[_V]]], *, asker: Hashable) -> _V:
        """The answer to a question, as it is known or as `ask` finds it out. `asker` is whom it is asked for.

        Raises:
            Unavailable: it was not found out in time, or too many questions wait already.
        """
        known = self._lasting.get(question) or self._brief.get(question)
        if known is not None:
            return known.value
        asking = self._asking.get(question)
        if asking is None:
            asking = self._begin(question, ask, asker=asker)
        # Shielded: who gives up does not take the answer away from the others.
        return await asyncio.shield(asking)

    async def close(self) -> None:
        """Ask no more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _begin(
        self, question: Hashable, ask: Callable[[], Awaitable[Decision[_V]]], *, asker: Hashable
    ) -> "asyncio.Task[_V]":
        renewed = question in self._granted_before
        waiting = self._askers[asker].questions if asker in self._askers else 0
        if not renewed and (len(self._asking) >= self._waiting or waiting >= self._waiting_each):
            raise Unavailable("too many callers are being checked at once; retry in a few seconds")
        self._askers[asker].questions += 1
        slots = (self._slots_for_renewals,) if renewed else (self._askers[asker].slots, self._slots)
        asking = self._asking[question] = asyncio.create_task(self._ask(question, ask, slots=slots))
        asking.add_done_callback(lambda done: self._done(question, done, asker=asker))
        return asking

    async def _ask(
        self, question: Hashable, ask: Callable[[], Awaitable[Decision[_V]]], *, slots: Sequence[asyncio.Semaphore]
    ) -> _V:
        try:
            async with asyncio.timeout(self._patience), AsyncExitStack() as taken:
                for slot in slots:
                    await taken.enter_async_context(slot)
                decision = await ask()
        except TimeoutError:
            raise Unavailable(
                "the Kubernetes API did not say in time who calls and what it may do; retry in a few seconds"
            ) from None
        if decision.lasting:
            self._lasting[question] = decision
            self._granted_before[question] = True
        else:
            self._brief[question] = decision
            self._granted_before.pop(question, None)
        return decision.value

    def _done(self, question: Hashable, task: "asyncio.Task[_V]", *, asker: Hashable) -> None:
        del self._asking[question]
        self._askers[asker].questions -= 1
        if self._askers[asker].questions == 0:
            del self._askers[asker]
        if not task.cancelled():
            task.exception()  # seen, even if everybody who waited for it has gone
