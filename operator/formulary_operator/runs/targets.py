"""What the owners of a run's target demand when it starts: hours after the request its labels may be others.

`runs/reconciler` reads it for each decision on a run, `runs/execution` right before anything is created. Objects are
read as the server reads them for a search, and mapped by the same file (DESIGN sections 6 and 13).
"""

from cachetools import TTLCache

from formulary_catalog.domain.runs.run import Invocation, Reason, RunTarget
from formulary_catalog.domain.runs.start_checks import TargetNow, Withdrawn
from formulary_catalog.domain.targets.context import target_context
from formulary_catalog.domain.targets.mapping import ContextMapping
from formulary_catalog.domain.targets.reference import target_reference
from formulary_catalog.domain.targets.surroundings import Surroundings, TargetReader
from formulary_catalog.errors import ContextError, InvalidInput

_KEPT_SECONDS = 10.0
_KEPT = 1024


class RunTargets:
    """Reads the targets of runs with the operator's own rights."""

    def __init__(self, reader: TargetReader, *, mapping: ContextMapping) -> None:
        self._reader = reader
        self._mapping = mapping
        self._kept: TTLCache[RunTarget, Surroundings] = TTLCache(_KEPT, ttl=_KEPT_SECONDS)

    async def context_of(self, run: Invocation, *, kept: bool = False) -> TargetNow:
        """What the owners of the target demand now, or why that is not known; None where no labels constrain the run.

        `kept`: what was read within the last ten seconds will do.

        Raises:
            Unavailable: the API server does not answer; nothing may start meanwhile.
        """
        if not run.is_of_target:
            return None
        try:
            around = self._kept.get(run.target) if kept else None
            around = around or await self._read(run.target)
            return target_context(around, mapping=self._mapping)
        except (ContextError, InvalidInput) as error:
            return Withdrawn(
                reason=Reason.INPUT_INVALID,
                message=f"nothing was run, since what the owners of {run.target} demand now is not known: {error}",
            )

    async def _read(self, target: RunTarget) -> Surroundings:
        reference = target_reference(namespace=target.namespace, kind=target.kind, name=target.name)
        assert reference is not None, "it has a name"
        around = await self._reader.read(reference, kind=await self._reader.kind_of(reference))
        self._kept[target] = around
        return around
