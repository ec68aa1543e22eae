"""What an incident demanded, read from its trace later by who may use the incidents of its namespace."""

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import NotFound
from formulary_catalog.search.audit import Trail
from formulary_catalog.search.readable import may_in_all
from formulary_catalog.store.audit.sealed import SealedCopy, SealedReader
from formulary_catalog.store.database.connection import Database

_MAX_SHOWN = 60


class SealedConstraints:
    """Shows sealed copies, custom labels included: never to a model. Each reading is an event of the same trace.

    A trace that the caller may not read is answered as one that does not exist. That event is in a trace of its own.
    """

    def __init__(self, database: Database, *, trail: Trail) -> None:
        self._reader = SealedReader(database)
        self._trail = trail

    async def of(self, trace_id: str, *, caller: Caller) -> list[SealedCopy]:
        """The copies of one trace, oldest first. A search is replayed with that whose digest its event names.

        Raises:
            NotFound: the trace has none, or the caller may not use the incidents of one of their namespaces.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record(
            "constraints", caller=caller, reference=ContextReference(), arguments={"trace_id": trace_id}
        ) as record:
            namespaces = await self._reader.namespaces(trace_id)
            # An unknown trace costs a check as well: a check that fails or takes time must not show which ones exist.
            allowed = await may_in_all(caller, USE_CONTEXTS, namespaces)
            if not (namespaces and allowed):
                raise NotFound(
                    f"no constraints that you may read are kept for trace {trace_id[:_MAX_SHOWN]!r}; give the "
                    f"remediation id of a searched incident in whose namespace you may {USE_CONTEXTS}; retrying "
                    "unchanged will fail again",
                    reference=trace_id,
                )
            record.trace_id = trace_id
            copies = await self._reader.copies(trace_id, namespaces=namespaces)
            record.result = {"sealed": [copy.digest for copy in copies]}
            return copies
