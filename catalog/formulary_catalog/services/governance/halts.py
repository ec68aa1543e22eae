"""The emergency stop as people say it over a server: which halts hold, halting, and lifting what was said so.

In a cluster a GovernanceContract halts, so the rights on those decide: who may create one in a namespace may halt the
runs there, who may delete one may lift that again; in the shared namespace, everywhere.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from formulary_catalog.domain.access import HALT, LIFT, READ_INVOCATIONS, Caller
from formulary_catalog.domain.governance.answers import HaltedAnswer, HaltList, LiftedAnswer, halt_answer
from formulary_catalog.domain.governance.halting import (
    SERVER,
    Halt,
    require_namespace,
    require_reason,
    unknown_namespace,
)
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.waiting_room import WaitingRoom
from formulary_catalog.errors import FormularyError, Overloaded, Unavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.store.database.connection import Role
from formulary_catalog.store.namespaces import NamespaceReader
from formulary_catalog.store.runs.halting import HaltWriter
from formulary_catalog.store.runs.reviewing import ReviewReader

_SECONDS = 12.0
"""A halt waits for starts that are under way, 5 s at most, and for a place behind nobody."""
_AT_ONCE = 8
_NO_INCIDENT = ContextReference()


class Halts:
    """Answers callers. What is halted and lifted is in the trace of the halt, in the name of the caller."""

    def __init__(self, parts: CatalogParts, *, shared_namespace: str) -> None:
        self._trail, self._database, self._halted = parts.trail, parts.database, parts.halted
        self._shared_namespace = shared_namespace
        self._review = ReviewReader(parts.database)
        self._readable = ReadableNamespaces(parts.database)
        self._namespaces = NamespaceReader(parts.database)
        self._places = WaitingRoom(places=_AT_ONCE, places_each=1)

    async def everywhere(self) -> list[Halt]:
        """The halts that hold everywhere, for probes and the head of a page: read once a second, without an event.

        Raises:
            Unavailable: the database does not answer.
        """
        return await self._halted.of(None)

    async def in_force(self, *, namespace: str = "", caller: Caller) -> HaltList:
        """The halts of everywhere, and those of the namespaces whose runs the caller may read.

        Raises:
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        arguments = {"namespace": namespace} if namespace else {}
        async with self._trail.record(
            "read.halts", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            namespaces, notes, _ = await self._readable.listed(caller, READ_INVOCATIONS, namespace=namespace)
            halts = await self._review.halts(namespaces=namespaces)
            shown = [halt for halt in halts if not namespace or halt.namespace in ("", namespace)]
            record.result = {"total": len(shown)}
            return HaltList(halts=[halt_answer(halt) for halt in shown], notes=notes)

    async def halt(self, *, namespace: str, reason: str, caller: Caller) -> HaltedAnswer:
        """Halt a namespace, or everywhere where it is empty; once this returns, nothing starts there.

        Raises:
            InvalidInput: the reason says nothing or too much, or there can be no such namespace.
            NotAllowed: the caller may not create contracts there.
            Unavailable: the database does not answer, or the rights cannot be checked; nothing is halted, as far as is
                known.
        """
        try:
            require_reason(reason)
            require_namespace(namespace)
            await caller.require(HALT, namespace=self.deciding(namespace))
            async with self._place(caller), self._database.apart(role=Role.SERVER, deadline=_SECONDS) as database:
                halt, ended = await HaltWriter(database).halt(
                    namespace=namespace, reason=reason.strip(), by=caller.name
                )
        except FormularyError as error:
            await self._refused("halt", error, namespace=namespace, reason=reason, caller=caller)
            raise
        self._halted.forget()
        notes = [] if halt.source == SERVER else ["a halt set at the database is already in force there, and stays"]
        with suppress(Unavailable):  # it is halted, whatever else is known
            notes += await self._doubts(namespace)
        return HaltedAnswer(halted=halt_answer(halt), ended_runs=ended, notes=notes)

    async def doubts(self, namespace: str, *, caller: Caller) -> list[str]:
        """What a person should know before it halts a namespace, or everywhere; nothing for who may not.

        Raises:
            Unavailable: the database does not answer, or the rights cannot be checked.
        """
        may = await caller.access.allows(HALT, namespace=self.deciding(namespace))
        return await self._doubts(namespace) if may else []

    async def lift(self, *, namespace: str, reason: str, caller: Caller) -> LiftedAnswer:
        """Lift what a person halted over a server, for new runs; what was halted stays ended.

        Raises:
            InvalidInput: the reason is too long, or there can be no such namespace.
            NotAllowed: the caller may not delete contracts there.
            Unavailable: the database does not answer, or the rights cannot be checked.
        """
        try:
            if reason.strip():
                require_reason(reason)
            require_namespace(namespace)
            await caller.require(LIFT, namespace=self.deciding(namespace))
            async with self._place(caller), self._database.apart(role=Role.SERVER, deadline=_SECONDS) as database:
                lifted, left = await HaltWriter(database).resume(
                    namespace=namespace, by=caller.name, reason=reason.strip()
                )
        except FormularyError as error:
            await self._refused("lift", error, namespace=namespace, reason=reason, caller=caller)
            raise
        self._halted.forget()
        with suppress(Unavailable):  # it is lifted, whatever else is known
            namespaces = await self._readable.of(caller, READ_INVOCATIONS)
            left = sorted({*left, *await self._review.halts(namespaces=namespaces)}, key=_place_of)
        return LiftedAnswer(
            lifted=halt_answer(lifted) if lifted is not None else None, in_force=[halt_answer(halt) for halt in left]
        )

    async def may_halt(self, caller: Caller) -> tuple[bool, bool]:
        """Whether the caller may halt everywhere, and whether any namespace that the catalog knows of.

        Raises:
            Unavailable: the database does not answer, or the rights cannot be checked.
        """
        everywhere = await caller.access.allows(HALT, namespace=self.deciding(""))
        somewhere = await self._readable.of(caller, HALT)
        return everywhere, somewhere is None or bool(somewhere)

    @asynccontextmanager
    async def _place(self, caller: Caller) -> AsyncIterator[None]:
        """One for each caller: halts take a connection of their own and wait for starts, of everybody in turn."""
        with self._places.place(caller.name) as is_free:
            if not is_free:
                raise Overloaded(
                    "too many halts are being set or lifted at the moment; retry in a second",
                    retry_after=1.0,
                )
            yield

    def deciding(self, namespace: str) -> str:
        """The namespace in which it takes a right to halt a namespace, or everywhere, and to lift that."""
        return namespace or self._shared_namespace

    async def _doubts(self, namespace: str) -> list[str]:
        return [unknown_namespace(namespace)] if namespace and not await self._namespaces.knows(namespace) else []

    async def _refused(self, what: str, error: FormularyError, *, namespace: str, reason: str, caller: Caller) -> None:
        arguments = {"asked": what, "namespace": namespace, "reason": reason}
        await self._trail.refused(
            "halt.refused", caller=caller, reference=_NO_INCIDENT, arguments=arguments, error=error
        )


def _place_of(halt: Halt) -> tuple[str, str]:
    """Those of everywhere first, as they are listed."""
    return halt.namespace, halt.contract
