"""The namespaces in which a caller has a right to read: what lists of incidents, traces, runs and contracts go by.

A right is asked for everywhere first, then namespace by namespace, a few at a time: each question goes to the API
server, and one caller must not crowd out the others.
"""

import asyncio

from formulary_catalog.domain.access import LIST_RULES, Caller, Right
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.namespaces import NamespaceReader

ASKED_ABOUT = 100
"""In so many namespaces the right of a caller is looked for who does not have it everywhere and names none."""
_AT_ONCE = 10


class ReadableNamespaces:
    """Asks for the rights of callers in the namespaces that the catalog knows of."""

    def __init__(self, database: Database) -> None:
        self._reader = NamespaceReader(database)

    async def of(self, caller: Caller, right: Right, *, namespace: str = "") -> frozenset[str] | None:
        """Those in which the caller has the right, None if it has it everywhere; of one namespace if one is named.

        Raises:
            Unavailable: the rights cannot be checked, or the database does not answer.
        """
        if await caller.access.allows(right, namespace=None):
            return None
        return await _allowed(
            caller, right, among=[namespace] if namespace else await self._reader.known(at_most=ASKED_ABOUT)
        )

    async def with_rules(self, caller: Caller) -> frozenset[str] | None:
        """Of the namespaces whose alerting rules are known, those in which the caller may list them; None for all.

        Raises:
            Unavailable: as `of`.
        """
        if await caller.access.allows(LIST_RULES, namespace=None):
            return None
        return await _allowed(caller, LIST_RULES, among=await self._reader.with_rules(at_most=ASKED_ABOUT))


async def _allowed(caller: Caller, right: Right, *, among: list[str]) -> frozenset[str]:
    allowed: set[str] = set()
    for start in range(0, len(among), _AT_ONCE):
        some = among[start : start + _AT_ONCE]
        answers = await asyncio.gather(*(caller.access.allows(right, namespace=name) for name in some))
        allowed |= {name for name, may in zip(some, answers, strict=True) if may}
    return frozenset(allowed)


async def may_in_all(caller: Caller, right: Right, namespaces: list[str]) -> bool:
    """Whether the caller has a right in all of these namespaces; an empty name, or none at all, means everywhere."""
    for namespace in namespaces or [""]:
        if not await caller.access.allows(right, namespace=namespace or None):
            return False
    return True
