"""The namespaces in which a caller has a right to read: what lists of incidents, traces, runs and contracts go by.

A right is asked for everywhere first, then namespace by namespace, a few at a time: each question goes to the API
server, and one caller must not crowd out the others.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

from formulary_catalog.domain.access import LIST_RULES, READ_CONSTRAINTS, SEE_WORKFLOWS, Caller, Right
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.namespaces import NamespaceReader

ASKED_ABOUT = 100
"""In so many namespaces the right of a caller is looked for who does not have it everywhere and names none."""
_AT_ONCE = 10
_MORE = (
    f"the catalog knows of more than {ASKED_ABOUT} namespaces, of which only the first by name were looked through; "
    "name a namespace to see what is in another one"
)


class Readable(NamedTuple):
    """Namespaces, None for all of them, and notes for who is answered from them. `nowhere`: the right is in none."""

    namespaces: frozenset[str] | None
    notes: list[str]
    nowhere: bool = False


def left_out(right: Right, *, namespaces: Collection[str] = ()) -> str:
    """What a list says to a caller who has a right in none of these namespaces, or in none at all: an empty one must
    not read as if there were nothing."""
    where = (
        f"in namespace {' or '.join(sorted(namespaces))}" if namespaces else "in any namespace that Formulary knows of"
    )
    return (
        f"you may not {right} {where}, so what others may see there is left out; ask an administrator of the "
        "namespace for a RoleBinding that allows it"
    )


class ReadableNamespaces:
    """Asks for the rights of callers in the namespaces that the catalog knows of."""

    def __init__(self, database: Database) -> None:
        self._reader = NamespaceReader(database)

    async def of(self, caller: Caller, right: Right, *, namespace: str = "") -> frozenset[str] | None:
        """Those in which the caller has the right, None if it has it everywhere; of one namespace if one is named.

        Raises:
            Unavailable: the rights cannot be checked, or the database does not answer.
        """
        return (await self.listed(caller, right, namespace=namespace)).namespaces

    async def listed(self, caller: Caller, right: Right, *, namespace: str = "") -> Readable:
        """The same for a list, which says where only some namespaces were asked about, or none is readable.

        Raises:
            Unavailable: as `of`.
        """
        if await caller.access.allows(right, namespace=None):
            return Readable(None, [])
        known = [namespace] if namespace else await self._known(right)
        allowed = await _allowed(caller, right, among=known[:ASKED_ABOUT])
        if len(known) > ASKED_ABOUT:
            return Readable(allowed, [_MORE])
        if allowed:
            return Readable(allowed, [])
        return Readable(allowed, [left_out(right, namespaces=[namespace] if namespace else [])], nowhere=True)

    async def _known(self, right: Right) -> list[str]:
        """Where there may be something to read: of workflows, the namespaces that have some."""
        if right in (SEE_WORKFLOWS, READ_CONSTRAINTS):
            return await self._reader.of_workflows(at_most=ASKED_ABOUT + 1)
        return await self._reader.known(at_most=ASKED_ABOUT + 1)

    async def with_rules(self, caller: Caller) -> frozenset[str] | None:
        """Of the namespaces whose alerting rules are known, those in which the caller may list them; None for all.

        Raises:
            Unavailable: as `of`.
        """
        if await caller.access.allows(LIST_RULES, namespace=None):
            return None
        return await _allowed(caller, LIST_RULES, among=await self._reader.with_rules(at_most=ASKED_ABOUT))

    async def among(self, caller: Caller, right: Right, namespaces: Sequence[str]) -> frozenset[str] | None:
        """Of these namespaces, those in which the caller has the right; None if it has it everywhere.

        Raises:
            Unavailable: the rights cannot be checked.
        """
        if await caller.access.allows(right, namespace=None):
            return None
        return await _allowed(caller, right, among=namespaces)


async def _allowed(caller: Caller, right: Right, *, among: Sequence[str]) -> frozenset[str]:
    allowed: set[str] = set()
    for start in range(0, len(among), _AT_ONCE):
        some = among[start : start + _AT_ONCE]
        answers = await asyncio.gather(*(caller.access.allows(right, namespace=name) for name in some))
        allowed |= {name for name, may in zip(some, answers, strict=True) if may}
    return frozenset(allowed)


async def may_in_all(caller: Caller, right: Right, namespaces: Sequence[str]) -> bool:
    """Whether the caller has a right in all of these namespaces; an empty name, or none at all, means everywhere."""
    for namespace in namespaces or [""]:
        if not await caller.access.allows(right, namespace=namespace or None):
            return False
    return True
