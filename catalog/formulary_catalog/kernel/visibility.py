"""What one call may see: its incident and the namespaces that its caller may list (DESIGN section 9).

`kernel/search/pipeline`, `kernel/lookup` and the listing call it first. It is the one place where rights of callers
decide; row-level security in the store enforces the same namespaces again.
"""

import asyncio
from dataclasses import dataclass, replace

from formulary_catalog.domain.access import READ_CONSTRAINTS, SEE_WORKFLOWS, Caller, Right
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import NotAllowed
from formulary_catalog.kernel.incidents import ContextResolver
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.kernel.trail import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class CallScope:
    """The incident of a call, if it has one, and the namespaces whose workflows are visible; None for all.

    `concerned` are the namespaces that the call is about, whatever is visible of them.
    """

    context: RequestContext | None
    namespaces: frozenset[str] | None
    concerned: frozenset[str] = frozenset()

    @property
    def remediation_id(self) -> str:
        """The incident's; empty without one."""
        return "" if self.context is None else self.context.remediation_id


class Visibility:
    """Finds the scope of each call."""

    def __init__(self, *, contexts: ContextResolver, shared_namespace: str, readable: ReadableNamespaces) -> None:
        self._contexts = contexts
        self._shared_namespace = shared_namespace
        self._readable = readable

    async def of(
        self, reference: ContextReference, *, caller: Caller, record: Record, browsing: bool = False
    ) -> CallScope:
        """The scope of a call, whose incident goes into `record`.

        `browsing`: a person looks through the catalog. A person needs no incident, and without one sees each namespace
        in which they may list workflows. Under an incident, and for agents always, it is the shared namespace and those
        of the incident, each if the caller may list workflows there; everything if it may list them everywhere.

        Raises:
            ContextError: the incident is required and missing, unknown or contradictory.
            NotAllowed: the caller may not use the incident, or may see none of the namespaces that it could.
            Unavailable: the database does not answer, or the rights cannot be checked.
        """
        named = replace(reference, optional=True) if browsing else reference
        context = await self._contexts.resolve(named, caller=caller)
        record.note_incident(context)
        return await self.within(context, caller=caller, browsing=browsing)

    async def within(self, context: RequestContext | None, *, caller: Caller, browsing: bool) -> CallScope:
        """The scope of a call for an incident that the caller may use, or for none; `browsing` as in `of`.

        Raises:
            NotAllowed: the caller may see none of the namespaces that it could.
            Unavailable: the rights cannot be checked, or the database does not answer.
        """
        relevant = {self._shared_namespace}
        if context is not None:
            relevant |= {context.namespace, context.target_namespace}
        elif browsing:
            relevant |= await self._readable.of(caller, SEE_WORKFLOWS) or frozenset()
        concerned = frozenset(relevant - {""})
        namespaces = await visible_namespaces(caller, among=concerned)
        return CallScope(context=context, namespaces=namespaces, concerned=concerned)

    async def suspended_in(self, scope: CallScope, *, caller: Caller) -> frozenset[str] | None:
        """The namespaces of a scope in which the caller may see suspended workflows; None for all.

        Raises:
            Unavailable: the rights cannot be checked, or the database does not answer.
        """
        if scope.namespaces is None:
            return await self._readable.of(caller, READ_CONSTRAINTS)
        return await self._readable.among(caller, READ_CONSTRAINTS, sorted(scope.namespaces))


async def visible_namespaces(caller: Caller, *, among: frozenset[str]) -> frozenset[str] | None:
    """Those in which the caller may list workflows; None if it may list them everywhere.

    Raises:
        NotAllowed: there is none, so that the answer could only be empty.
        Unavailable: the rights cannot be checked.
    """
    visible = await namespaces_with(caller, SEE_WORKFLOWS, among=among)
    if visible is not None and not visible:
        names = ", ".join(sorted(among))
        raise NotAllowed(
            f"{caller.name} may not {SEE_WORKFLOWS} in any namespace that this call could see ({names}); "
            "ask an administrator of one of them for a RoleBinding that allows it"
        )
    return visible


async def namespaces_with(caller: Caller, right: Right, *, among: frozenset[str]) -> frozenset[str] | None:
    """Those in which the caller has the right; None if it has it everywhere.

    Raises:
        Unavailable: the rights cannot be checked.
    """
    names = sorted(among)
    everywhere, *allowed = await asyncio.gather(
        *(caller.access.allows(right, namespace=name) for name in (None, *names))
    )
    return None if everywhere else frozenset(name for name, may in zip(names, allowed, strict=True) if may)
