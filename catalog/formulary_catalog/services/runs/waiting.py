"""Waiting for a run by polling its row: another process advances it.

`services.runs.service` waits with it, for a new run as for one that is followed. Polling needs nothing but the database
that is there anyway; places are bounded, so that calls that wait leave room for searches.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.waiting_room import WaitingRoom
from formulary_catalog.errors import Unavailable

if TYPE_CHECKING:
    from formulary_catalog.store.runs.submission import InvocationStore

_FIRST_POLL = 0.05
_SLOWEST_POLL = 0.5
_SLOWING = 1.5
_REPORT_SECONDS = 2.0
PLACES = 40
"""Calls that may wait for a run; the server has as many slots more than it has for other calls."""
_PLACES_EACH = 20

Progress = Callable[[float, float, str], Awaitable[None]]
"""Called with the seconds waited, out of how many, and the state of what is waited for."""


async def no_progress(waited: float, total: float, message: str) -> None:
    """For callers that cannot receive progress."""


class RunWatch:
    """Waits for runs, for few calls of one caller and a bounded number in all."""

    def __init__(self, store: "InvocationStore") -> None:
        self._store = store
        self._room = WaitingRoom(places=PLACES, places_each=_PLACES_EACH)

    async def until(
        self,
        reached: Callable[[Invocation], bool],
        *,
        run: Invocation,
        seconds: float,
        caller: str,
        progress: Progress,
    ) -> tuple[Invocation, bool]:
        """The run as soon as `reached` says so, or as it stands when the time is up; and whether there was a place.

        A database that does not answer meanwhile is asked again.
        """
        if reached(run) or seconds <= 0:
            return run, True
        with self._room.place(caller) as may_wait:
            return (
                await self._watch(reached, run=run, seconds=seconds, progress=progress) if may_wait else run
            ), may_wait

    async def _watch(
        self, reached: Callable[[Invocation], bool], *, run: Invocation, seconds: float, progress: Progress
    ) -> Invocation:
        clock = asyncio.get_running_loop().time
        started = reported_at = clock()
        pause, reported = _FIRST_POLL, run.revision
        await progress(0.0, seconds, run.phase.state)
        while not reached(run) and (left := started + seconds - clock()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(pause * _SLOWING, _SLOWEST_POLL)
            run = await self._again(run)
            if run.revision != reported or clock() - reported_at >= _REPORT_SECONDS:
                reported, reported_at = run.revision, clock()
                await progress(min(reported_at - started, seconds), seconds, run.phase.state)
        return run

    async def _again(self, run: Invocation) -> Invocation:
        try:
            return await self._store.find(run.id) or run
        except Unavailable:
            return run
