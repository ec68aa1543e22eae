"""The audit trail: one row for every search, detail read and selection, appended before the answer leaves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from formulary_catalog.store.database import Connection, Database

_NUL = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """What happened. `analysis` is `namespace/name` of the context; never its labels. `duration_ms` in milliseconds."""

    action: str
    caller: str
    outcome: str
    duration_ms: float
    remediation_id: str = ""
    analysis: str = ""
    search_id: UUID | None = None
    mode: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)


class AuditLog:
    """Appends; the database role may do nothing else."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, event: AuditEvent) -> None:
        """Write one event.

        Raises:
            Unavailable: it was not written, and the call that it records must fail.
        """
        await self._database.execute(
            """
            insert into audit_event (action, caller, remediation_id, analysis, search_id, arguments, result, mode,
                                     outcome, duration_ms)
            values ($1, $2, nullif($3, ''), nullif($4, ''), $5, $6, $7, nullif($8, ''), $9, $10)
            """,
            event.action,
            event.caller,
            _storable(event.remediation_id),
            _storable(event.analysis),
            event.search_id,
            _storable(dict(event.arguments)),
            _storable(dict(event.result)),
            event.mode,
            event.outcome,
            event.duration_ms,
        )

    async def search_recorded(self, search_id: UUID, *, caller: str, remediation_id: str) -> bool:
        """Whether this caller's search for this incident, empty for none, is in the trail under this id."""

        async def read(connection: Connection) -> bool:
            found = await connection.fetchval(
                "select formulary.search_recorded($1, $2, $3)", search_id, caller, _storable(remediation_id)
            )
            return bool(found)

        return await self._database.read(read)


def _storable(value: Any) -> Any:
    """The same value in a form that PostgreSQL can store: refused arguments are recorded too."""
    if isinstance(value, str):
        return value.replace(_NUL, "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value
