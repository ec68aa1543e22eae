"""What an incident demanded, read from its trace later by who may use the incidents of its namespace."""

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.request import ContextReference
from formulary_catalog.errors import NotFound
from formulary_catalog.search.trail import Trail
from formulary_catalog.store.database import Database
from formulary_catalog.store.sealed import SealedCopy, SealedReader

_MAX_SHOWN = 60


class SealedConstraints:
    """Shows sealed copies, custom labels included: never to a model. Each reading is an event of the same trace."""

    def __init__(self, database: Database, *, trail: Trail) -> None:
        self._reader = SealedReader(database)
        self._trail = trail

    async def of(self, trace_id: str, *, caller: Caller) -> list[SealedCopy]:
        """The copies of one trace, oldest first. A search is replayed with that whose digest its event names.

        Raises:
            NotFound: the trace has none.
            NotAllowed: the caller may not use the incidents of one of their namespaces.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record(
            "constraints", caller=caller, reference=ContextReference(), arguments={"trace_id": trace_id}
        ) as record:
            namespaces = await self._reader.namespaces(trace_id)
            if not namespaces:
                raise NotFound(
                    f"no constraints are kept for trace {trace_id[:_MAX_SHOWN]!r}; give the remediation id of an "
                    "incident for which something was searched, retrying unchanged will fail again",
                    reference=trace_id,
                )
            record.trace_id = trace_id
            for namespace in namespaces:
                await caller.require(USE_CONTEXTS, namespace=namespace or None)
            copies = await self._reader.copies(trace_id, namespaces=namespaces)
            record.result = {"sealed": [copy.digest for copy in copies]}
            return copies
