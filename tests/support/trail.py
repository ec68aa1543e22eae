"""The trail as the owner of the database sees it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg

from formulary_catalog.domain.audit.chain import GENESIS, StoredEvent, digest
from formulary_catalog.domain.audit.checkpoint import SigningKey
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.store.audit.events import TraceEvent, TraceStore

KEY = SigningKey.generate()
"""Signs checkpoints."""
THIS_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
NOON = "2026-01-01T12:00:00.000000Z"
"""When events were written that never saw a database."""
_ABSENT = {"remediation_id": "", "analysis": "", "mode": "", "arguments": {}, "result": {}}


async def recorded(connection: "asyncpg.Connection[asyncpg.Record]") -> list[dict[str, Any]]:
    """All that was recorded, in order: payloads, with trace, kind, caller and search beside what they say."""
    rows = await connection.fetch(
        """
        select trace_id, kind, caller, search_id::text, body from formulary.trace_event
        order by body::json ->> 'at', seq
        """
    )
    return [_ABSENT | json.loads(row["body"])["payload"] | dict(row) for row in rows]


def event(trace_id: str, number: int = 1, **changes: Any) -> TraceEvent:
    """An event as calls write them, told from others by its number."""
    fields = {
        "kind": "details",
        "caller": "agent",
        "payload": {"outcome": "ok", "number": number, "text": 'ü "\\ \u2028'},
    }
    return TraceEvent(trace_id=trace_id, **{**fields, **changes})


async def write_trace(store: TraceStore, trace_id: str, events: int) -> None:
    """A trace of so many events."""
    for number in range(1, events + 1):
        await store.append(event(trace_id, number))


def stored(trace_id: str, *, seq: int, previous: str, text: str = "") -> StoredEvent:
    """An event as the database stores it."""
    body = canonical_json(
        {
            "at": NOON,
            "kind": "details",
            "payload": {"caller": "agent", "text": text},
            "previous": previous,
            "seq": seq,
            "trace_id": trace_id,
        }
    )
    return StoredEvent(
        trace_id=trace_id, seq=seq, kind="details", caller="agent", search_id="", body=body, hash=digest(body)
    )


async def age(connection: "asyncpg.Connection[asyncpg.Record]", trace_id: str, *, at: datetime) -> None:
    """Let a trace have happened then, all of it, before any checkpoint vouched for it."""
    month = at.date().replace(day=1)
    await connection.execute(
        "select formulary.create_trace_month($1) where not exists (select from formulary.trace_month where month = $1)",
        month,
    )
    rows = await connection.fetch(
        "select seq, body from formulary.trace_event where trace_id = $1 order by seq", trace_id
    )
    await connection.execute("alter table formulary.trace_event disable trigger user")
    newest = GENESIS
    for row in rows:
        then = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = canonical_json({**json.loads(row["body"]), "at": then, "previous": newest})
        newest = digest(body)
        await connection.execute(
            "update formulary.trace_event set month = $1, body = $2, hash = $3 where trace_id = $4 and seq = $5",
            month,
            body,
            newest,
            trace_id,
            row["seq"],
        )
    await connection.execute("alter table formulary.trace_event enable trigger user")
    await connection.execute(
        "update formulary.trace_head set month = $1, changed_at = $2, hash = $3 where trace_id = $4",
        month,
        at,
        newest,
        trace_id,
    )


def chain(trace_id: str, texts: Sequence[str]) -> list[StoredEvent]:
    """An unbroken chain with an event for each text."""
    events: list[StoredEvent] = []
    for number, text in enumerate(texts, start=1):
        previous = events[-1].hash if events else GENESIS
        events.append(stored(trace_id, seq=number, previous=previous, text=text))
    return events
