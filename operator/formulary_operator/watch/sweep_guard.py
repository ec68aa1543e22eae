"""The guard of the sweep: what is missing at once from the cluster is removed only if that is believed or allowed.

`resync` asks it about each complete list, `runtime` waits for its permission, `formulary-operator sweep` gives it. An
API server that answers with an empty list, or a wrong context, must not empty the catalog.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress

import structlog

from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.workflows.sweeps import SweepRefusal, SweepRefusals
from formulary_operator.api.names import LEASES
from formulary_operator.kube.events import EventRecorder
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings
from formulary_operator.watch.drift import Key, sweep

_LOOK_SECONDS = 5.0
_log = structlog.get_logger(__name__)


class SweepGuard:
    """Decides on sweeps, and reports each refusal: in the log, a metric, the database and an Event."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        name: str,
        database: Database,
        events: EventRecorder,
        metrics: OperatorMetrics,
    ) -> None:
        self._settings = settings
        self._name = name
        self._refusals = SweepRefusals(database)
        self._events = events
        self._metrics = metrics
        self._reported = ""
        """The id of the refusal that people know of."""
        self.refused: SweepRefusal | None = None
        """What was refused to be removed after the last complete list."""
        self.removes_allowed = False
        """Whether the last complete list left something to remove that somebody allowed."""

    async def orphans(self, known: Mapping[Key, StoredWorkflow], *, seen: Collection[Key]) -> frozenset[Key]:
        """Those of the `known` workflows to remove, of which a complete list has `seen` none.

        Raises:
            Unavailable: the database does not answer.
        """
        before = await self._refusals.of(self._name)
        found = sweep(
            [(*key, workflow.owner) for key, workflow in known.items()],
            seen=seen,
            max_fraction=self._settings.sweep_max_fraction,
            allowed=before.missing if before is not None and before.allowed else (),
        )
        self._metrics.sweep_refused.set(len(found.refused))
        self.refused = None
        self.removes_allowed = before is not None and before.allowed and bool(found.orphans)
        if found.refused:
            self.refused = await self._refusals.keep(self._name, missing=found.refused, served=len(known))
            await self._report(self.refused)
        elif before is not None and not self.removes_allowed:
            # An allowance holds until all of it is done, whatever ends this process meanwhile.
            await self._refusals.end(self._name)
        return found.orphans

    async def allowed(self) -> None:
        """Wait until somebody allows what was refused."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self._reported:
                continue
            with suppress(FormularyError):  # what does not answer is reported by those who need it
                refusal = await self._refusals.of(self._name)
                if refusal is not None and refusal.id == self._reported and refusal.allowed:
                    self._reported = ""
                    return

    async def _report(self, refusal: SweepRefusal) -> None:
        if refusal.id == self._reported:
            return
        self._reported = refusal.id
        next_step = f"if they were really deleted, run `formulary-operator sweep --allow {refusal.id}`"
        _log.error(
            "sweep_refused",
            id=refusal.id,
            missing=len(refusal.missing),
            served=refusal.served,
            examples=[f"{namespace}/{name}" for namespace, name, _ in sorted(refusal.missing)[:3]],
            next_step=next_step,
        )
        if self._settings.lease_namespace:
            await self._events.record(
                {
                    "apiVersion": LEASES.api_version,
                    "kind": LEASES.kind,
                    "metadata": {"namespace": self._settings.lease_namespace, "name": self._settings.lease_name},
                },
                type="Warning",
                reason="SweepRefused",
                message=f"{refusal}, which is not believed: they stay served; {next_step}",
            )


async def sweep_command(database_url: str, *, allow: str = "") -> list[str]:
    """What is refused, a line for each; with `allow`, the id of one, that is allowed once.

    Raises:
        NotFound: nothing is refused under this id.
        StartupError, Unavailable: the database cannot be used.
    """
    async with Database.opened(database_url, role=Role.WRITER) as database:
        refusals = SweepRefusals(database)
        if allow:
            return [f"{await refusals.allow(allow)}; the operator removes them within seconds"]
        return [f"{each.id}{' (allowed)' if each.allowed else ''}: {each}" for each in await refusals.all()]
