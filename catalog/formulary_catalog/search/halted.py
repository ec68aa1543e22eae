"""What is halted, as searches say it: read at most once a second for each set of namespaces."""

from cachetools import TTLCache

from formulary_catalog.domain.analysis import RequestContext
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.store.database import Database
from formulary_catalog.store.halts import HaltReader

_SECONDS = 1.0
_SETS = 1000


class Halted:
    """The halts that would hold for a run. Whether one may begin is never decided by this."""

    def __init__(self, database: Database) -> None:
        self._reader = HaltReader(database)
        self._known: TTLCache[frozenset[str], list[Halt]] = TTLCache(maxsize=_SETS, ttl=_SECONDS)

    async def of(self, context: RequestContext | None) -> list[Halt]:
        """The halts that hold for the runs of an incident; without one those that hold everywhere.

        Raises:
            Unavailable: the database does not answer.
        """
        named = {context.namespace, context.target_namespace} if context is not None else set()
        namespaces = frozenset(named - {""})
        if (known := self._known.get(namespaces)) is None:
            known = self._known[namespaces] = await self._reader.in_force(namespaces)
        return known


def halted_notes(halts: list[Halt]) -> list[str]:
    """What an answer says of them."""
    return [f"{halt}; searches go on, but nothing can be run until a person lifts that" for halt in halts]
