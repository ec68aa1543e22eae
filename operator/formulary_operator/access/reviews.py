"""Asking the API server to judge something: reviews are created, answered at once, and stored nowhere.

Its answers on callers are kept for a short while, and asked for once by all who ask at the same time.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog
from cachetools import LRUCache, TTLCache

from formulary_catalog.errors import Unavailable
from formulary_catalog.log import Throttle
from formulary_operator.api.names import Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused

_log = structlog.get_logger(__name__)
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


class Reviewer:
    """Creates reviews. That it is refused one is logged once in ten seconds."""

    def __init__(self, client: KubeClient, *, again_seconds: float = 0.25) -> None:
        self._client = client
        self._again_seconds = again_seconds
        self._throttle = Throttle()

    async def review(self, path: str, *, api_version: str, kind: str, spec: Mapping[str, Any]) -> Json:
        """The status of a review. While the API server does not answer it is asked again: the caller sets the time.

        Raises:
            Unavailable: there is none, and there will be none; nothing may be assumed then.
        """
        try:
            answer = await self._created(path, {"apiVersion": api_version, "kind": kind, "spec": spec})
        except KubernetesRefused as error:
            count = self._throttle.admit((kind, error.status, error.reason))
            if count:
                _log.error("review_refused", kind=kind, status=error.status, reason=error.reason, count=count)
            raise Unavailable(
                f"the Kubernetes API refuses this server a {kind} ({error.status} {error.reason}), so callers cannot "
                "be checked; its operators have to bind its ServiceAccount to the ClusterRole system:auth-delegator"
            ) from error
        status = answer.get("status")
        if not isinstance(status, dict):
            raise Unavailable(f"the Kubernetes API answers a {kind} without a status; retry in a few seconds")
        return status

    async def _created(self, path: str, body: Mapping[str, Any]) -> Json:
        while True:
            try:
                return await self._client.create(path, body)
            except Unavailable:
                # Agents do not repeat a call, so a restart of the API server should not reach them.
                await asyncio.sleep(self._again_seconds)


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
