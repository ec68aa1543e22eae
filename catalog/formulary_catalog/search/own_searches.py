"""The search that a caller chose from, which must be one of its own for the same incident."""

from uuid import UUID

from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.traces import TraceStore


async def own_search(traces: TraceStore, search_id: str, *, caller: str, remediation_id: str) -> UUID | None:
    """The search of this id; None where none is named.

    Raises:
        InvalidInput: it is none of this caller's for this incident.
        Unavailable: the database does not answer.
    """
    if not search_id:
        return None
    known = _uuid(search_id)
    if known is None or not await traces.search_recorded(known, caller=caller, remediation_id=remediation_id):
        raise InvalidInput(
            "search_id names no recorded search; copy the search_id of the answer you chose from, or leave it out",
            field="search_id",
        )
    return known


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
