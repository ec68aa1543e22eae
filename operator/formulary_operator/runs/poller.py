"""Queues the runs that have not ended, again and again.

`runtime` keeps it running. No event says that there is a new row in the database or that a Job has ended. Where runs
were switched off it ends what is left of them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from formulary_catalog.domain.runs.run import Invocation, Phase, Reason
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.runs.halting import HaltReader
from formulary_catalog.store.runs.lifecycle import ActiveRun, RunWriter
from formulary_operator.api.names import INVOCATIONS
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.runs.plan import seconds_left
from formulary_operator.watch.queue import ObjectKey, Priority, WorkQueue

ROUND_SECONDS = 0.5
_APART_SECONDS: Mapping[Phase, float] = {Phase.PENDING: 0.0, Phase.AWAITING_APPROVAL: 3.0, Phase.RUNNING: 1.0}
_LOOKS_A_SECOND = 20
_HALTED_APART_SECONDS = 1.0
"""However many runs there are: each look is some questions to the API server and the database. For each phase, so that
runs that wait for a person do not hold up those that are under way."""
_UNTAKEN_SECONDS = 60.0
_UNREPORTED_SECONDS = 3.0
"""Between two looks for runs that were denied at once, and get an object so that people see them."""
_LEFT_SECONDS = 30.0
"""Between two looks for what was left when runs were switched off."""
_log = structlog.get_logger(__name__)


class RunPoller:
    """Queues the runs that are not over. `namespaces` are those that are watched, empty for all."""

    def __init__(
        self,
        *,
        runs: RunWriter,
        halts: HaltReader,
        queue: WorkQueue[ObjectKey],
        metrics: OperatorMetrics,
        namespaces: Collection[str],
    ) -> None:
        self._runs = runs
        self._halts = halts
        self._queue = queue
        self._metrics = metrics
        self._namespaces = frozenset(namespaces)
        self._looked: dict[str, float] = {}
        self._looked_for_denied = float("-inf")
        self._hurried = asyncio.Event()

    def look_at(self, run: Invocation) -> None:
        """Have a run looked at now."""
        self._queue.add(ObjectKey(INVOCATIONS.plural, run.namespace, run.object_name), Priority.URGENT)

    def look_at_all(self) -> None:
        """Have every run looked at: what holds for them may have changed."""
        self._looked.clear()
        self._hurried.set()

    async def keep_looking(self) -> None:
        """Look again and again.

        Raises:
            Superseded: another operator leads.
        """
        while True:
            self._hurried.clear()
            try:
                await self._round()
            except Superseded:
                raise
            except FormularyError as error:
                _log.warning("runs_not_read", reason=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(ROUND_SECONDS):
                    await self._hurried.wait()

    async def keep_ending(self, *, runs_namespace: str) -> None:
        """End again and again what was asked for before runs were switched off.

        Nothing is started any more, and nothing says how a Job ended: without runs there is no right to look at it.
        `runs_namespace`: that of runs about Nodes, which is not watched any more.

        Raises:
            Superseded: another operator leads.
        """
        while True:
            try:
                for run in await self._runs.active():
                    if not self._namespaces or run.namespace in {*self._namespaces, runs_namespace}:
                        await self._end_left(run)
            except Superseded:
                raise
            except FormularyError as error:
                _log.warning("runs_not_read", reason=str(error))
            await asyncio.sleep(_LEFT_SECONDS)

    async def _end_left(self, left: ActiveRun) -> None:
        """End a run that waits, or one whose time is over: its Job has ended by its own deadline."""
        if left.phase is not Phase.RUNNING:
            if left.age_seconds > _UNTAKEN_SECONDS:
                message = "runs were switched off (execution.mode is off), nothing was run; ask again once they are on"
                await self._runs.finish(left.id, phase=Phase.FAILED, reason=Reason.DENIED, message=message)
        elif (run := await self._runs.find(left.id)) is not None and run.started_at is not None:
            if seconds_left(run, now=datetime.now(UTC)) < -_UNTAKEN_SECONDS:
                message = "runs were switched off while it ran (execution.mode is off), so that its outcome is unknown"
                await self._runs.finish(left.id, phase=Phase.FAILED, reason=Reason.RUN_FAILED, message=message)

    async def _round(self) -> None:
        active = await self._runs.active()
        counted = Counter(run.phase for run in active)
        for phase in _APART_SECONDS:
            self._metrics.set_runs(phase.value, counted[phase])
        halts = await self._halts.in_force()
        everywhere = sum(not halt.namespace for halt in halts)
        self._metrics.set_halts(everywhere=everywhere, namespaces=len(halts) - everywhere)
        known, self._looked = self._looked, {}
        for run in active:
            if self._namespaces and run.namespace not in self._namespaces:
                await self._refuse_unwatched(run)
                continue
            self._looked[run.id] = self._look(run, last=known.get(run.id), alike=counted[run.phase])
        if time.monotonic() - self._looked_for_denied > _UNREPORTED_SECONDS:
            self._looked_for_denied = time.monotonic()
            for denied in await self._runs.unreported():
                if not self._namespaces or denied.namespace in self._namespaces:
                    self.look_at(denied)

    def _look(self, run: ActiveRun, *, last: float | None, alike: int) -> float:
        """Queue a run whose time has come; when it was queued last."""
        now = time.monotonic()
        key = ObjectKey(INVOCATIONS.plural, run.namespace, run.object_name)
        if run.halted:
            # None of the rules below holds one up that has to be ended, and none that waits goes before one that runs.
            if last is not None and now - last < _HALTED_APART_SECONDS:
                return last
            self._queue.add(key, Priority.EMERGENCY if run.phase is Phase.RUNNING else Priority.CHANGED)
            return now
        apart = max(_APART_SECONDS[run.phase], alike / _LOOKS_A_SECOND)
        if last is not None and now - last < apart:
            return last
        # What waits there already may be in a pause, which its failures have earned.
        if key not in self._queue:
            self._queue.add(key, Priority.URGENT if run.phase is Phase.PENDING else Priority.CHANGED)
        return now

    async def _refuse_unwatched(self, run: ActiveRun) -> None:
        """Another operator may watch that namespace; if none does, somebody waits in vain."""
        if run.phase is Phase.PENDING and run.age_seconds > _UNTAKEN_SECONDS:
            message = f"no operator watches namespace {run.namespace}; add it to FORMULARY_WATCH_NAMESPACES of one"
            await self._runs.finish(run.id, phase=Phase.FAILED, reason=Reason.START_FAILED, message=message)
