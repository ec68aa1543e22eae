"""Targets as people read them: what their owners demand, and which label of which object says so.

It takes `get` on the target, as for agents. Custom labels take the right of an incident's, which agents do not have.
"""

from formulary_catalog.domain.access import READ_CONSTRAINTS, Caller
from formulary_catalog.domain.reading import DemandAnswer, TargetAnswer
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.targets.context import Demand
from formulary_catalog.domain.targets.reference import TargetReference
from formulary_catalog.domain.workflows.labels import STANDARD_KEYS, wire_name
from formulary_catalog.kernel.parts import CatalogParts


class TargetReading:
    """Answers callers; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts, *, strict_keys: frozenset[str]) -> None:
        self._trail = parts.trail
        self._targets = parts.targets
        self._strict_keys = strict_keys

    async def read(self, target: TargetReference, *, caller: Caller) -> TargetAnswer:
        """What the owners of a target demand.

        Raises:
            ContextError: targets are not read here, it does not exist, or its namespace lacks a label.
            NotAllowed: the caller may not get the target.
            Unavailable: it cannot be read now, or the caller's rights cannot be checked.
        """
        arguments = {"target": str(target)}
        async with self._trail.record(
            "read.target", caller=caller, reference=ContextReference(), arguments=arguments
        ) as record:
            context = await self._targets.context_of(target, caller=caller)
            demands = await self._targets.demands_on(target, caller=caller)
            strict = context.strict_keys | self._strict_keys | STANDARD_KEYS
            namespace = context.target_namespace or None
            reveal = await caller.access.allows(READ_CONSTRAINTS, namespace=namespace)
            hidden = not reveal and any(demand.custom for demand in demands)
            notes = [context.note] if context.note else []
            if hidden:
                notes.append(f"custom labels are not shown: you may not {READ_CONSTRAINTS} there")
            record.result = {"total": len(demands)}
            return TargetAnswer(
                target=str(target),
                demands=[_answer(each, strict=strict) for each in demands if reveal or not each.custom],
                detected_labels=dict(context.detected_labels),
                notes=notes,
            )


def _answer(demand: Demand, *, strict: frozenset[str]) -> DemandAnswer:
    return DemandAnswer(
        name=demand.name if demand.custom else wire_name(demand.name),
        value=demand.value,
        custom=demand.custom,
        strict=demand.custom and demand.name in strict,
        object=str(demand.source),
        label=demand.label,
    )
