"""What the owners of a run's target demand when it starts: hours after the request its labels may be others.

`runs/submission` reads it for what people create, `runs/reconciler` for each decision on a run, `runs/execution` right
before anything is created. Objects are read as the server reads them for a search, and mapped by the same file (DESIGN
sections 6 and 13).
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from cachetools import TTLCache

from formulary_catalog.domain.alerts.context import context_of_alert, given_by
from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.incidents import RequestContext, same_incident
from formulary_catalog.domain.runs.run import Invocation, Reason, Source
from formulary_catalog.domain.runs.start_checks import TargetNow, Withdrawn
from formulary_catalog.domain.runs.target_input import named_namespaces, named_objects
from formulary_catalog.domain.targets.context import further_context, target_context
from formulary_catalog.domain.targets.mapping import ContextMapping
from formulary_catalog.domain.targets.reference import TargetKind, TargetReference, target_reference
from formulary_catalog.domain.targets.surroundings import Surroundings, TargetReader
from formulary_catalog.domain.workflows.manifest import WorkflowSpec
from formulary_catalog.errors import ContextError, InvalidInput, InvalidManifest, TargetMissing
from formulary_catalog.store.alerts import AlertReader

_KEPT_SECONDS = 10.0
_KEPT = 1024


class RunTargets:
    """Reads the targets of runs with the operator's own rights.

    `of_objects`: those of objects that people created, too, and the namespaces of runs for an AIAnalysis. Targets that
    agents named it always reads: the server did before.
    """

    def __init__(self, reader: TargetReader, *, mapping: ContextMapping, alerts: AlertReader, of_objects: bool) -> None:
        self._reader = reader
        self._mapping = mapping
        self._alerts = alerts
        self.of_objects = of_objects
        self._kept: TTLCache[tuple[str, TargetReference], Surroundings] = TTLCache(_KEPT, ttl=_KEPT_SECONDS)

    async def context_of(self, run: Invocation, *, kept: bool = False) -> TargetNow:
        """What the owners demand now of whatever a run acts on, or why that is not known; None where no labels
        constrain the run.

        `kept`: what was read for the run within the last ten seconds will do.

        Raises:
            Unavailable: the API server does not answer; nothing may start meanwhile.
        """
        if not self.of_objects and (run.source is Source.CLUSTER or not run.is_of_target):
            return None
        try:
            if run.is_of_target:
                own = await self._own_context(run, kept=kept)
                further = named_in(run.document, run.input, context=own, home=run.namespace)
                return (own, *await self._further(further, run=run, kept=kept))
            if run.analysis and (spec := _spec_of(run.document)) is not None:
                namespaces = named_namespaces(spec, run.input, home=run.namespace)
                return await self._further(namespaces, run=run, kept=kept)
        except (ContextError, InvalidInput) as error:
            return Withdrawn(
                reason=Reason.INPUT_INVALID,
                message=f"nothing was run, since what the owners of {run.target} demand now is not known: {error}",
            )
        return None

    async def kind_of(self, reference: TargetReference) -> TargetKind:
        """As `TargetReader.kind_of`."""
        return await self._reader.kind_of(reference)

    async def context_now(self, reference: TargetReference, *, kind: TargetKind) -> RequestContext:
        """What the owners of a target demand now.

        Raises:
            ContextError: it does not exist, may not be read, or its namespace lacks a label.
            Unavailable: the API server does not answer.
        """
        return target_context(await self._reader.read(reference, kind=kind), mapping=self._mapping)

    async def _alert(self, run: Invocation) -> RequestContext:
        """The alert of a run, which gives what the labels of its target leave open."""
        known = await self._alerts.find(frozenset({run.remediation_id}))
        about = (run.target.namespace, run.target.kind, run.target.name)
        found = [each for each in known if (each.target_namespace, each.target_kind, each.target_name) == about]
        if not found or len(found) < len(known) or any(not same_incident(found[0], other) for other in found[1:]):
            raise ContextError(
                f"incident {run.remediation_id} is not known any more, or is about something else by now"
            )
        return found[0]

    async def _further(
        self, references: Iterable[TargetReference], *, run: Invocation, kept: bool
    ) -> tuple[RequestContext, ...]:
        """What the owners of further objects of a run demand; of what does not exist nobody demands anything."""
        found = []
        for reference in references:
            with suppress(TargetMissing):
                around = await self._read(reference, run=run, kept=kept)
                found.append(further_context(around, mapping=self._mapping))
        return tuple(found)

    async def _own_context(self, run: Invocation, *, kept: bool) -> RequestContext:
        target = run.target
        reference = target_reference(namespace=target.namespace, kind=target.kind, name=target.name)
        assert reference is not None, "it has a name"
        around = await self._read(reference, run=run, kept=kept)
        if not run.remediation_id:
            return target_context(around, mapping=self._mapping)
        alert = await self._alert(run)
        demanded = target_context(around, mapping=self._mapping, known=given_by(alert))
        return context_of_alert(alert, target=demanded)

    async def _read(self, reference: TargetReference, *, run: Invocation, kept: bool) -> Surroundings:
        # What was read for an earlier run, before a label was changed, must not end this one.
        around = self._kept.get((run.id, reference)) if kept else None
        if around is None:
            around = await self._reader.read(reference, kind=await self._reader.kind_of(reference))
            self._kept[run.id, reference] = around
        return around


def named_in(
    document: Mapping[str, Any], values: Mapping[str, Any], *, context: RequestContext | None, home: str
) -> list[TargetReference]:
    """What a run names besides its target or, for an AIAnalysis, which namespaces besides its own, `home`.

    A version that cannot be read any more names nothing, and is not allowed.
    """
    spec = _spec_of(document)
    if spec is None or context is None:
        return []
    if context.analysis:
        _, *others = named_namespaces(spec, values, home=home)
        return others
    return named_objects(spec, values, context=context)


def _spec_of(document: Mapping[str, Any]) -> WorkflowSpec | None:
    try:
        return catalog_entry(document, source="catalog", default_namespace="default").workflow.spec
    except InvalidManifest:
        return None
