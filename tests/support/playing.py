"""Plays the operator on a real database: announces itself, begins what may begin and ends it as the test says."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from formulary_catalog.domain.runs.facts import UnknownAuthors
from formulary_catalog.domain.runs.outcome import Outcome, Verdict
from formulary_catalog.domain.runs.run import Invocation, Phase, Reason
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.executors import ExecutorWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.verification import VerificationStore
from support.runs import KEYS, job_of

SHARED = "formulary"
_POLL = 0.02
_LONGEST_PAUSE = 0.32
_ANNOUNCED_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ends."""

    phase: Phase = Phase.SUCCEEDED
    reason: str = Reason.COMPLETED
    message: str = "done"
    outputs: Mapping[str, Any] = field(default_factory=lambda: {"healed": True})


GOOD = Ending()
BAD = Ending(phase=Phase.FAILED, reason=Reason.RUN_FAILED, message="step restart failed with exit code 1", outputs={})
LATE = Ending(
    phase=Phase.TIMED_OUT, reason=Reason.DEADLINE_EXCEEDED, message="still running at its deadline", outputs={}
)
Ends = Callable[[Invocation], Ending | None]
"""How a run ends; None while it goes on."""


def well(run: Invocation) -> Ending | None:
    return GOOD


async def decide(dsn: str, *outcomes: Outcome, only: str = "") -> None:
    """Decide the runs whose outcome is not known, or one of them, the one that ended first with the first of these."""
    async with Database.opened(dsn, role=Role.WRITER) as database:
        store = VerificationStore(database)
        unknown = [each.id for each in await store.open_runs() if only in ("", each.id)]
        for invocation_id, outcome in zip(unknown, outcomes, strict=True):
            verdict = Verdict(outcome=outcome, feedback=f"the test says {outcome}")
            assert await store.decide(invocation_id, verdict) is not None


class PlayedOperator(RunWriter):
    """What the operator moves runs on with, and says that it is there."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, shared_namespace=SHARED, keys=KEYS)
        self._executors = ExecutorWriter(database)

    async def announce(
        self, *, engines: Sequence[str] = ("job",), unknown_authors: UnknownAuthors = UnknownAuthors.RUN
    ) -> None:
        """Say that an executor with these engines is there, and what it does where an author is unknown."""
        await self._executors.announce(name="played", engines=engines, unknown_authors=unknown_authors)


@asynccontextmanager
async def run_writer(dsn: str) -> AsyncIterator[PlayedOperator]:
    """An operator that does nothing by itself."""
    database = await Database.open(dsn, role=Role.WRITER, size=2, deadline=10)
    try:
        yield PlayedOperator(database)
    finally:
        await database.close()


@asynccontextmanager
async def operator(
    dsn: str,
    *,
    ends: Ends = well,
    engines: Sequence[str] = ("job",),
    unknown_authors: UnknownAuthors = UnknownAuthors.RUN,
) -> AsyncIterator[PlayedOperator]:
    """An operator that is there as long as the block runs."""
    async with run_writer(dsn) as runs:
        announce = partial(runs.announce, engines=engines, unknown_authors=unknown_authors)
        await announce()
        working = asyncio.create_task(_work(runs, ends, announce=announce))
        try:
            yield runs
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working


async def _work(runs: PlayedOperator, ends: Ends, *, announce: Callable[[], Awaitable[None]]) -> None:
    announced = time.monotonic()
    due: dict[str, tuple[float, float]] = {}  # when to look at a run again, and the pause before that
    while True:
        now = time.monotonic()
        if now - announced > _ANNOUNCED_SECONDS:
            await announce()
            announced = now
        for run in await runs.active():
            at, pause = due.get(run.id, (now, _POLL))
            if at <= now:  # one that waits for a person is looked at less and less often
                await _step(runs, run.id, ends)
                due[run.id] = now + pause, min(2 * pause, _LONGEST_PAUSE)
        await asyncio.sleep(_POLL)


async def _step(runs: RunWriter, invocation_id: str, ends: Ends) -> None:
    begun = await runs.begin(invocation_id)
    if begun is None or begun.phase is not Phase.RUNNING:
        return
    if not begun.runs_for_real:
        reason = Reason.DEGRADED if begun.degraded else Reason.DRY_RUN
        manifest = {"kind": "Job", "metadata": {"name": begun.id}}
        await runs.finish(
            begun.id, phase=Phase.SUCCEEDED, reason=reason, message="the cluster would take it", manifest=manifest
        )
    elif (ending := ends(begun)) is not None:
        await runs.note_reference(begun.id, reference=job_of(begun.id))
        await runs.finish(
            begun.id, phase=ending.phase, reason=ending.reason, message=ending.message, outputs=ending.outputs
        )
