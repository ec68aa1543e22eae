"""The trail: one hash chain per trace, appended to in the transaction of what it records."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from cachetools import TTLCache
from pydantic_core import from_json

from formulary_catalog.domain.audit.chain import StoredEvent
from formulary_catalog.domain.audit.sealing import KeyedDigest, Sealed
from formulary_catalog.domain.audit.verification import Replay
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.store.audit.one_trace import (
    TracePart,
    events_of,
    name_trace,
    part_of,
    replay_of,
    search_of,
    selection_in,
)
from formulary_catalog.store.audit.sealed import KEY
from formulary_catalog.store.database.connection import Connection, Database

_NUL = "\0"
_DEEPEST = 64
"""Levels of lists and objects: what is nested deeper, as the outputs of a run may be, no verification could read."""
_TOO_DEEP = "(nested too deep to be recorded)"
_APPEND = "select seq, hash, at from formulary.append_trace($1, $2, $3)"
_APPEND_SEALED = "select seq, hash, at from formulary.append_sealed($1, $2, $3, $4, $5, $6)"
_SEALED_KNOWN = 10_000
_SEALED_SECONDS = 3600.0
"""A copy that was written is there for longer than this: it lives as long as its trace, which is months."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """What happened. `search_id` is that of the search it belongs to. Never holds custom labels or sensitive inputs.

    `sealed` is what the incident demanded: a copy of it is kept apart from the trace, and the payload holds its digest.
    """

    trace_id: str
    kind: str
    caller: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    search_id: UUID | None = None
    sealed: Sealed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Position of an event in its chain."""

    seq: int
    hash: str
    at: datetime


async def append_event(connection: Connection, event: TraceEvent) -> Appended:
    """Write one event in the transaction of the connection: it stays if, and only if, the transaction does.

    The trace is locked until then, so appends belong at the end of a transaction.
    """
    if event.sealed is None:
        row = await connection.fetchrow(_APPEND, *_arguments(event))
    else:
        digest = KeyedDigest(await connection.fetchval(KEY)).of(event.sealed.content)
        row = await connection.fetchrow(_APPEND_SEALED, *_arguments(event, digest), *_copy(event.sealed, digest))
    assert row is not None
    return Appended(seq=row["seq"], hash=row["hash"], at=row["at"])


class TraceStore:
    """The trail as the programs use it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._digest: KeyedDigest | None = None
        self._sealed: TTLCache[tuple[str, str], bool] = TTLCache(_SEALED_KNOWN, ttl=_SEALED_SECONDS)

    async def digest(self) -> KeyedDigest:
        """The keyed digest of this database; asked for once.

        Raises:
            Unavailable: the database does not answer.
        """
        if self._digest is None:
            (row,) = await self._database.fetch(KEY)
            self._digest = KeyedDigest(row["key"])
        return self._digest

    async def append(self, event: TraceEvent) -> None:
        """Write one event, in one round trip and a transaction of its own, with a copy of what is sealed if it is new.

        Raises:
            Unavailable: it was not written, and the call that it records must fail.
        """
        if event.sealed is None:
            await self._database.execute(_APPEND, *_arguments(event))
            return
        digest = (await self.digest()).of(event.sealed.content)
        copy = (event.trace_id, digest)
        if copy in self._sealed:
            await self._database.execute(_APPEND, *_arguments(event, digest))
            return
        await self._database.execute(_APPEND_SEALED, *_arguments(event, digest), *_copy(event.sealed, digest))
        self._sealed[copy] = True

    async def events(self, trace_id: str) -> list[StoredEvent]:
        """The events of a trace, in order; none where there is no such trace.

        Raises:
            Unavailable: the database does not answer, or there are more than can be read in time.
        """

        async def read(connection: Connection) -> list[StoredEvent]:
            await name_trace(connection, trace_id)
            return await events_of(connection, trace_id)

        return await self._database.read(read)

    async def part(self, trace_id: str, *, after: int, size: int) -> TracePart:
        """The `size` events after event `after` of a trace, and whether they are as they were written.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> TracePart:
            await name_trace(connection, trace_id)
            return await part_of(connection, trace_id, after=after, size=size)

        return await self._database.read(read)

    async def search(self, trace_id: str, *, search_id: UUID) -> StoredEvent | None:
        """The search of this id in a trace; None if it holds none.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> StoredEvent | None:
            await name_trace(connection, trace_id)
            return await search_of(connection, trace_id, search_id=search_id)

        return await self._database.read(read)

    async def selection(self, trace_id: str, *, version_id: str) -> StoredEvent | None:
        """The newest selection of a version that its search supports; None if there is none.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> StoredEvent | None:
            await name_trace(connection, trace_id)
            return await selection_in(connection, trace_id, version_id=version_id)

        return await self._database.read(read)

    async def verify(self, trace_id: str) -> Replay:
        """Whether a trace is as it was written; without events and findings where there is no such trace.

        Signatures of checkpoints are not checked here: `TraceReader.verify` does, over all traces.

        Raises:
            Unavailable: as `events`.
        """

        async def read(connection: Connection) -> Replay:
            await name_trace(connection, trace_id)
            return await replay_of(connection, trace_id)

        return await self._database.read(read)

    async def begun_by(self, trace_id: str) -> str | None:
        """The caller of the oldest event of a trace; None where there is no such trace.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> str | None:
            await name_trace(connection, trace_id)
            caller: str | None = await connection.fetchval(
                "select caller from formulary.trace_event where trace_id = $1 order by seq limit 1", trace_id
            )
            return caller

        return await self._database.read(read)

    async def search_recorded(self, search_id: UUID, *, caller: str, remediation_id: str) -> bool:
        """Whether this caller's search for this incident, empty for none, is in the trail under this id."""

        async def read(connection: Connection) -> bool:
            found = await connection.fetchval(
                "select formulary.search_recorded($1, $2, $3)", search_id, caller, _storable(remediation_id)
            )
            return bool(found)

        return await self._database.read(read)

    async def searched_target(self, search_id: UUID, *, caller: str) -> str:
        """The target that this search of this caller named; empty for none, and for no such search.

        Raises:
            Unavailable: the database does not answer.
        """
        (row,) = await self._database.fetch("select formulary.searched_target($1, $2) as target", search_id, caller)
        return row["target"] or ""

    async def search_supports(self, trace_id: str, *, caller: str, search_id: UUID | None, version_id: str) -> bool:
        """Whether a search of this caller in a trace returned this version: the one of this id, None for any of them.

        Raises:
            Unavailable: the database does not answer.
        """
        (row,) = await self._database.fetch(
            "select formulary.search_supports($1, $2, $3, $4, null) as supports",
            _storable(trace_id),
            caller,
            search_id,
            version_id,
        )
        return bool(row["supports"])


def _arguments(event: TraceEvent, sealed: str = "") -> tuple[str, str, str]:
    """Trace, kind and payload; the database takes caller and search from the payload, which the hash covers.

    `sealed` is the digest of what is kept apart from the trace.
    """
    said = {**event.payload, "caller": event.caller}
    if sealed:
        said["sealed"] = sealed
    if event.search_id is not None:
        said["search_id"] = str(event.search_id)
    return event.trace_id, event.kind, _text(said)


def _copy(sealed: Sealed, digest: str) -> tuple[str, str, str]:
    return digest, sealed.namespace, sealed.content


def _text(said: Mapping[str, Any]) -> str:
    """The canonical text that can be stored and read again. Few payloads hold what cannot, so looking comes first."""
    try:
        text = canonical_json(said)
        from_json(f"[{text}]")
    except (TypeError, ValueError, RecursionError):
        return canonical_json(_storable(said))
    return text if "\\u0000" not in text else canonical_json(_storable(said))


def _storable(value: Any, *, room: int = _DEEPEST) -> Any:
    """The same value in a form that can be stored and read again: refused arguments are recorded too."""
    if room == 0 and isinstance(value, Mapping | list | tuple):
        return _TOO_DEEP
    if isinstance(value, str):
        return value.replace(_NUL, "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {_storable(key): _storable(item, room=room - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item, room=room - 1) for item in value]
    return value
