"""Observes what became of the problem after each run, and has its outcome decided at the end of its window.

`runs/execution` notes a target before a run begins and as it ends, `wiring` keeps the rest going with the leader alone.
All that was seen is in the database: after a restart the next leader goes on with it. `domain/runs/outcome` decides.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from formulary_catalog.domain.alerts.reading import is_alert_id
from formulary_catalog.domain.runs.measurement import NotMeasured, query_of
from formulary_catalog.domain.runs.outcome import (
    Episodes,
    Observed,
    Samples,
    TargetState,
    TargetWatch,
    decide,
    of_abandoned,
    window_of,
)
from formulary_catalog.domain.runs.run import Invocation, RunTarget
from formulary_catalog.domain.targets.readiness import readiness_of
from formulary_catalog.domain.targets.reading import controller_of
from formulary_catalog.domain.targets.reference import TargetKind, known_kind, target_reference
from formulary_catalog.errors import ContextError, FormularyError, InvalidInput, Unavailable
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.runs.verification import OpenRun, VerificationStore
from formulary_operator.access.targets import KubernetesTargets
from formulary_operator.measuring import Measuring

_ROUND_SECONDS = 1.0
_LOOKS = 60
_MOST_APART_SECONDS = 15.0
"""Between two looks at a target: a sixtieth of the window, and no more than this."""
_LATE_SECONDS = 60.0
"""A target that is read so much later does not say what the run left behind."""
_MEASURED_WITHIN_SECONDS = 600.0
"""So long after it was due an outcome waits for a Prometheus that does not answer."""
_FOLLOWED = frozenset({"Pod", "ReplicaSet"})
"""Made again by what owns them, under other names."""
_log = structlog.get_logger(__name__)


class RunVerifier:
    """Decides outcomes. `namespaces` are those that are watched, empty for all; `decided` is called with each run.

    All methods raise Unavailable while the API server or the database does not answer.
    """

    def __init__(
        self,
        *,
        store: VerificationStore,
        alerts: AlertReader,
        targets: KubernetesTargets,
        measuring: Measuring,
        namespaces: Collection[str],
        decided: Callable[[Invocation], None],
    ) -> None:
        self._store = store
        self._alerts = alerts
        self._targets = targets
        self._measuring = measuring
        self._namespaces = frozenset(namespaces)
        self._decided = decided
        self._looked: dict[str, float] = {}

    async def note_before(self, run: Invocation) -> None:
        """Note the target of a run before anything is changed. What a former attempt to start it noted counts."""
        if run.target.name:
            state = await self._state_if_there(run)
            watch = (await self._store.watch(run.id)).before_start(state, at=datetime.now(UTC))
            await self._store.note_before(run.id, watch=watch)

    async def at_end(self, run: Invocation, *, ended_at: datetime | None) -> TargetState | None:
        """The target of a run that has just ended; None where that is too long ago, or it cannot be read."""
        if ended_at is not None and (datetime.now(UTC) - ended_at).total_seconds() > _LATE_SECONDS:
            return None
        return await self._state_if_there(run, known=await self._store.watch(run.id))

    async def keep_verifying(self) -> None:
        """Look at the runs whose outcome is not decided, again and again.

        Raises:
            Superseded: another operator leads.
        """
        while True:
            try:
                await self.look_once()
            except Superseded:
                raise
            except FormularyError as error:
                _log.warning("outcomes_not_decided", reason=str(error))
            await asyncio.sleep(_ROUND_SECONDS)

    async def look_once(self) -> None:
        """Look at each run whose outcome is not decided, if it is time, and decide those that are due."""
        looked, self._looked = self._looked, {}
        for each in await self._store.open_runs(namespaces=self._namespaces):
            if each.is_abandoned:
                await self._store.decide(each.id, of_abandoned(each.namespace))
                continue
            last, now = looked.get(each.id), time.monotonic()
            apart = min(each.seconds / _LOOKS, _MOST_APART_SECONDS)
            if last is not None and now - last < apart and not each.is_due:
                self._looked[each.id] = last
                continue
            self._looked[each.id] = now
            await self._look(each)

    async def _look(self, due: OpenRun) -> None:
        found = await self._store.find(due.id)
        if found is None:
            return
        run, now = found
        assert run.verify_at is not None, "it is to be decided"
        watch = TargetWatch.from_json(run.observed)
        try:
            watch = await self._watched(run, known=watch, now=now)
        except Unavailable:  # read at the next look; it neither holds up other runs, nor this one for ever
            if not due.is_due or now - run.verify_at < timedelta(seconds=_LATE_SECONDS):
                return
        if not due.is_due:
            return
        try:
            samples, unmeasured = await self._measured(run, now=now)
        except Unavailable:
            return  # Prometheus says later, too, what was then
        observed = replace(await self._observed(run, watch=watch), measured=samples, unmeasured=unmeasured)
        verdict = decide(observed)
        if (ended := await self._store.decide(run.id, verdict)) is not None:
            _log.info("outcome_decided", invocation=run.id, namespace=run.namespace, outcome=verdict.outcome.value)
            self._decided(ended)

    async def _watched(self, run: Invocation, *, known: TargetWatch, now: datetime) -> TargetWatch:
        """With one more look, which is kept; after the first that follows the window there is none."""
        if known.looked_at is not None or (state := await self._state(run.target, known=known)) is None:
            return known
        watch = known.seen(state, at=now)
        if now >= _until(run):
            watch = replace(watch, looked_at=now)
        if watch != known:
            await self._store.note(run.id, watch=watch)
        return watch

    async def _observed(self, run: Invocation, *, watch: TargetWatch) -> Observed:
        assert run.finished_at is not None, "it is over"
        other = await self._store.other_run(run, until=_until(run)) if run.target.name else ""
        return Observed(
            phase=run.phase,
            started_at=run.started_at or run.created_at,
            finished_at=run.finished_at,
            window=window_of(run.document),
            of_alert=is_alert_id(run.remediation_id),
            episodes=await self._episodes(run),
            has_target=bool(run.target.name),
            watch=watch,
            other_run=f"run {other}" if other else "",
            query=query_of(run.document),
        )

    async def _measured(self, run: Invocation, *, now: datetime) -> tuple[Samples, str]:
        """What the query of its workflow said around a run, or why it said nothing. Raises Unavailable for a while."""
        assert run.verify_at is not None, "it is to be decided"
        name, since = query_of(run.document), run.started_at or run.created_at
        if not name:
            return (), ""
        try:
            return await self._measuring.samples(name, target=run.target, since=since, until=_until(run)), ""
        except NotMeasured as error:
            return (), str(error)
        except Unavailable as error:
            if now - run.verify_at < timedelta(seconds=_MEASURED_WITHIN_SECONDS):
                raise
            return (), str(error)

    async def _episodes(self, run: Invocation) -> Episodes | None:
        """When the alert of the run's incident fired; None where none is known."""
        if not is_alert_id(run.remediation_id):
            return None
        about = (run.target.namespace, run.target.kind, run.target.name)
        known = [
            each
            for each in await self._alerts.known(run.remediation_id, namespaces=None)
            if (each.context.target_namespace, each.context.target_kind, each.context.target_name) == about
        ]
        return [episode for each in known for episode in each.episodes] if known else None

    async def _state_if_there(self, run: Invocation, *, known: TargetWatch | None = None) -> TargetState | None:
        """As `_state`, and None where it cannot be read now: neither the start nor the end of a run waits for that."""
        try:
            return await self._state(run.target, known=known)
        except Unavailable:
            return None

    async def _state(self, target: RunTarget, *, known: TargetWatch | None = None) -> TargetState | None:
        """A target as it is now, or the workload that a pod belonged to; None where it cannot be read.

        `known` says what was looked at before.
        """
        before = (known.after or known.before) if known is not None else None
        kind_name, _, name = before.name.partition("/") if before is not None else (target.kind, "", target.name)
        try:
            reference = target_reference(namespace=target.namespace, kind=kind_name, name=name)
            if reference is None:
                return None
            kind = await self._targets.kind_of(reference)
            namespace = reference.namespace if kind.namespaced else ""
            return await self._state_of(kind, namespace=namespace, name=reference.name, followed=before is not None)
        except (ContextError, InvalidInput) as error:
            _log.debug("target_not_observed", target=str(target), reason=str(error))
            return None

    async def _state_of(self, kind: TargetKind, *, namespace: str, name: str, followed: bool) -> TargetState:
        found = await self._targets.get(kind, namespace=namespace, name=name, whole=True)
        while found is not None and not followed and kind.kind in _FOLLOWED:
            owner = controller_of(found) or {}
            above, its_name = known_kind(str(owner.get("kind", ""))), str(owner.get("name", ""))
            if above is None:
                break
            above_it = await self._targets.get(above, namespace=namespace, name=its_name, whole=True)
            if above_it is None:
                break
            kind, name, found = above, its_name, above_it
        if found is None:
            return TargetState(name=f"{kind.kind}/{name}")
        metadata = found["metadata"]
        return TargetState(
            name=f"{kind.kind}/{name}",
            uid=str(metadata["uid"]),
            generation=int(metadata.get("generation") or 0),
            ready=readiness_of(kind.kind, found),
        )


def _until(run: Invocation) -> datetime:
    """The end of the window of a run that is over."""
    assert run.finished_at is not None, "it is over"
    return run.finished_at + timedelta(seconds=window_of(run.document).total)
