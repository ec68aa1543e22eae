"""From the target that a call names to what its owners demand; in doubt the call fails (DESIGN section 6).

`kernel/incidents` calls it where a call names no incident. What surrounds a target is kept for ten seconds at most, so
that a label is obeyed as soon, and for all callers alike; the right to have it as a target is each caller's own.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable

from cachetools import TTLCache

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.targets.context import Demand, demands_on, further_context, target_context
from formulary_catalog.domain.targets.mapping import ContextMapping
from formulary_catalog.domain.targets.reference import TargetReference
from formulary_catalog.domain.targets.surroundings import Surroundings, TargetReader
from formulary_catalog.errors import ContextError, TargetMissing, Unavailable

KEPT_SECONDS = 10.0
_PATIENCE_SECONDS = 4.0
_KEPT = 1024


class TargetContexts:
    """The contexts of targets. Without a reader there are none: a call that names a target is refused."""

    def __init__(
        self, reader: TargetReader | None, *, mapping: ContextMapping, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reader = reader
        self.mapping = mapping
        self._kept: TTLCache[TargetReference, asyncio.Task[Surroundings]] = TTLCache(
            _KEPT, ttl=KEPT_SECONDS, timer=clock
        )

    @property
    def are_read(self) -> bool:
        """Whether calls may name a target here."""
        return self._reader is not None

    def examples(self) -> list[TargetReference]:
        """The first known workload of each namespace, to show what a target changes."""
        known = self._reader.workloads() if self._reader is not None else ()
        return list({each.namespace: each for each in reversed(known)}.values())[::-1]

    async def context_of(
        self, reference: TargetReference, *, caller: Caller, known: Collection[str] = frozenset()
    ) -> RequestContext:
        """The context of a call about the target; `known` are the dimensions that the alert of the call gives.

        Raises:
            ContextError: targets are not read here, it does not exist, or its namespace lacks a label.
            NotAllowed: the caller may not get the target.
            Unavailable: it cannot be read now, or the caller's rights cannot be checked.
        """
        return target_context(await self._surroundings(reference, caller=caller), mapping=self.mapping, known=known)

    async def further(
        self, references: Iterable[TargetReference], *, caller: Caller | None
    ) -> tuple[RequestContext, ...]:
        """What the owners of further objects of a run demand; of what does not exist nobody demands anything.

        `caller`: who names them, and needs the right to; None for what the server looks at of itself.

        Raises:
            ContextError: targets are not read here, or one may not be read.
            NotAllowed, Unavailable: as `context_of`.
        """
        # Together, so that many take as long as the slowest; each has its own patience, which begins now.
        read = [self._surroundings(each, caller=caller) for each in references]
        found = []
        for around in await asyncio.gather(*read, return_exceptions=True):
            if isinstance(around, Surroundings):
                found.append(further_context(around, mapping=self.mapping))
            elif not isinstance(around, TargetMissing):
                raise around
        return tuple(found)

    async def demands_on(self, reference: TargetReference, *, caller: Caller) -> list[Demand]:
        """What the owners of the target demand, and which labels say so. Raises as `context_of`."""
        return demands_on(await self._surroundings(reference, caller=caller), mapping=self.mapping)

    async def _surroundings(self, reference: TargetReference, *, caller: Caller | None) -> Surroundings:
        if self._reader is None:
            raise ContextError(
                "this server reads no targets (context.target is off); leave target_namespace, target_kind and "
                "target_name out, and name the incident in a header"
            )
        reader = self._reader
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                kind = await reader.kind_of(reference)
                # Before anything is read, and however it is spelled: nobody learns here what exists elsewhere.
                if caller is not None:
                    await caller.require(kind.get, namespace=reference.home)
                reading = self._kept.get(reference)
                if reading is None:
                    reading = self._kept[reference] = asyncio.create_task(reader.read(reference, kind=kind))
                    reading.add_done_callback(lambda done: self._forget_failure(reference, done))
                return await asyncio.shield(reading)
        except TimeoutError:
            raise Unavailable(
                f"target {reference} could not be read in time, so its constraints are not known and nothing is "
                "returned; retry in a few seconds"
            ) from None

    def _forget_failure(self, reference: TargetReference, reading: "asyncio.Task[Surroundings]") -> None:
        if (reading.cancelled() or reading.exception() is not None) and self._kept.get(reference) is reading:
            self._kept.pop(reference, None)
