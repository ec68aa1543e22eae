"""Answers of the API server on callers: kept for a short while, and asked for once by all who ask at the same time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import TTLCache

from formulary_catalog.errors import Unavailable

LASTING_SECONDS = 30.0
"""How long a granted right outlives its withdrawal at most; long enough that a conversation asks once."""
BRIEF_SECONDS = 5.0
"""How long a right that was just granted may still be denied."""

_CAPACITY = 4096
_QUESTIONS_AT_ONCE = 16
_MAX_WAITING = 200
_PATIENCE_SECONDS = 5.0
_V = TypeVar("_V")

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[_V]):
    """An answer, and whether it is kept for the longer time, as what grants something is."""

    value: _V
    lasting: bool


class Decisions(Generic[_V]):
    """Decisions by question. Brief ones are kept apart: however many there are, they push no lasting one out.

    Errors are never kept.
    """

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._lasting: TTLCache[Hashable, Decision[_V]] = TTLCache(_CAPACITY, ttl=LASTING_SECONDS, timer=clock)
        self._brief: TTLCache[Hashable, Decision[_V]] = TTLCache(_CAPACITY, ttl=BRIEF_SECONDS, timer=clock)
        self._asking: dict[Hashable, asyncio.Task[_V]] = {}
        self._slots = asyncio.Semaphore(_QUESTIONS_AT_ONCE)

    async def decide(self, question: Hashable, ask: Callable[[], Awaitable[Decision[_V]]]) -> _V:
        """The answer to a question, as it is known or as `ask` finds it out.

        Raises:
            Unavailable: it was not found out within five seconds, or too many questions wait already.
        """
        known = self._lasting.get(question) or self._brief.get(question)
        if known is not None:
            return known.value
        asking = self._asking.get(question)
        if asking is None:
            if len(self._asking) >= _MAX_WAITING:
                raise Unavailable("too many callers are being checked at once; retry in a few seconds")
            asking = self._asking[question] = asyncio.create_task(self._ask(question, ask))
            asking.add_done_callback(lambda done: self._done(question, done))
        # Shielded: who gives up does not take the answer away from the others.
        return await asyncio.shield(asking)

    async def close(self) -> None:
        """Ask no more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, question: Hashable, ask: Callable[[], Awaitable[Decision[_V]]]) -> _V:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), self._slots:
                decision = await ask()
        except TimeoutError:
            raise Unavailable(
                "the Kubernetes API did not say in time who calls and what it may do; retry in a few seconds"
            ) from None
        (self._lasting if decision.lasting else self._brief)[question] = decision
        return decision.value

    def _done(self, question: Hashable, task: "asyncio.Task[_V]") -> None:
        del self._asking[question]
        if not task.cancelled():
            task.exception()  # seen, even if everybody who waited for it has gone
