"""One trace, as a session reads that has named it: row-level security hides every other.

`store/audit/events` answers the programs with it, `reader` the owner of the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from formulary_catalog.domain.audit.chain import OWN_TRACE, TRIAL, Head, IntegrityFinding, Mark, Problem, StoredEvent
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.verification import Replay, VerifiedPart, verify_trace
from formulary_catalog.store.database.connection import Connection
from formulary_catalog.store.database.owner import OwnerConnection

EVENT = "trace_id, seq, kind, caller, coalesce(search_id::text, '') as search_id, body, hash"
"""The columns of a `StoredEvent`."""
AT = """to_char(changed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at"""
"""When the newest event of a head was written, as its body spells it."""
_SOON = 20
"""The incident of a trace is known by this event: the first ones may come before its AIAnalysis does."""


async def head_of(connection: Connection | OwnerConnection, trace_id: str) -> Head | None:
    """The head of one trace that the session may read."""
    row = await connection.fetchrow(
        f"select seq, hash, {AT}, checkpointed from formulary.trace_head where trace_id = $1", trace_id
    )
    return Head(**row) if row is not None else None


async def events_of(connection: Connection | OwnerConnection, trace_id: str) -> list[StoredEvent]:
    """The events of one trace that the session may read, in order."""
    rows = await connection.fetch(
        f"select {EVENT} from formulary.trace_event where trace_id = $1 order by seq", trace_id
    )
    return [StoredEvent(**row) for row in rows]


def names_later(trace_id: str, *, first_body: str, namespaces: Sequence[str]) -> bool:
    """Whether only a later event than the first may name the incident; none does where none was ever known."""
    return any(namespaces) and not trace_id.startswith(OWN_TRACE) and bool(first_body) and not _analysis(first_body)


async def naming_body(connection: Connection | OwnerConnection, trace_id: str) -> str:
    """The first of the first events that names the AIAnalysis, of one trace that the session may read; empty if none.

    It looks at few events, by their key: a list does so for traces of its page.
    """
    rows = await connection.fetch(
        """
        select body from formulary.trace_event
        where trace_id = $1 and seq <= $2 and strpos(body, '"analysis"') > 0 order by seq
        """,
        trace_id,
        _SOON,
    )
    return next((row["body"] for row in rows if _analysis(row["body"])), "")


def _analysis(body: str) -> str:
    event = StoredEvent(trace_id="", seq=0, kind="", caller="", search_id="", body=body, hash="")
    return Recorded(event.payload).text("analysis")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePart:
    """Events `after` one up to the one at `upto`, of a trace that has `total`, and what verification says of them.

    `before` is the event `after` which they come; verification covers it too. `began` is when the trace did. Both are
    None where there is no such event.
    """

    after: int
    upto: int
    total: int
    before: StoredEvent | None
    events: list[StoredEvent]
    began: datetime | None
    replay: Replay

    @property
    def verified(self) -> list[StoredEvent]:
        """The events that verification covers."""
        return self.events if self.before is None else [self.before, *self.events]


async def part_of(connection: Connection, trace_id: str, *, after: int, size: int) -> TracePart:
    """The `size` events after event `after` of one trace that the session may read, verified with the one before."""
    head = await head_of(connection, trace_id)
    newest = await connection.fetchval("select max(seq) from formulary.trace_event where trace_id = $1", trace_id)
    total = max(head.seq if head is not None else 0, newest or 0)
    upto = after + size
    part = VerifiedPart(first=max(after, 1), last=upto if upto < total else None)
    rows = await connection.fetch(
        f"select {EVENT} from formulary.trace_event where trace_id = $1 and seq between $2 and $3 order by seq",
        trace_id,
        part.first,
        upto,
    )
    found = [StoredEvent(**row) for row in rows]
    first = found[:1] if part.first == 1 else await _first_of(connection, trace_id)
    return TracePart(
        after=after,
        upto=min(upto, total),
        total=total,
        before=next((event for event in found if event.seq == after), None),
        events=[event for event in found if event.seq > after],
        began=first[0].at if first else None,
        replay=await _replay_of(connection, trace_id, events=found, head=head, part=part),
    )


async def _first_of(connection: Connection, trace_id: str) -> list[StoredEvent]:
    rows = await connection.fetch(
        f"select {EVENT} from formulary.trace_event where trace_id = $1 and seq = 1", trace_id
    )
    return [StoredEvent(**row) for row in rows]


async def search_of(connection: Connection, trace_id: str, *, search_id: UUID) -> StoredEvent | None:
    """The search of this id in one trace that the session may read."""
    row = await connection.fetchrow(
        f"""
        select {EVENT} from formulary.trace_event
        where trace_id = $1 and search_id = $2 and kind in ('search', '{TRIAL}')
        """,
        trace_id,
        search_id,
    )
    return StoredEvent(**row) if row is not None else None


async def selection_in(connection: Connection, trace_id: str, *, version_id: str) -> StoredEvent | None:
    """The newest supported selection of a version, of one trace that the session may read."""
    rows = await connection.fetch(
        f"""
        select {EVENT} from formulary.trace_event
        where trace_id = $1 and kind = 'selection' and strpos(body, $2) > 0 order by seq desc limit {_SOON}
        """,
        trace_id,
        version_id,
    )
    said = [StoredEvent(**row) for row in rows]
    return next((each for each in said if _selects(Recorded(each.payload).inner("result"), version_id)), None)


def _selects(result: Recorded, version_id: str) -> bool:
    return result.flag("supported") and result.text("version_id") == version_id


async def replay_of(connection: Connection, trace_id: str) -> Replay:
    """Verify one trace that the session may read, without the signatures of checkpoints."""
    head = await head_of(connection, trace_id)
    return await _replay_of(
        connection, trace_id, events=await events_of(connection, trace_id), head=head, part=VerifiedPart()
    )


async def _replay_of(
    connection: Connection, trace_id: str, *, events: Sequence[StoredEvent], head: Head | None, part: VerifiedPart
) -> Replay:
    marks = await connection.fetch("select * from formulary.trace_marks($1)", trace_id)
    altered = [
        IntegrityFinding(
            problem=Problem.CHECKPOINT_EDITED,
            message="text and hash do not belong together",
            seq=row["checkpoint"],
            last=row["checkpoint"],
        )
        for row in marks
        if not row["sound"]
    ]
    sound = [Mark(row["checkpoint"], row["seq"], row["hash"], row["expired"]) for row in marks if row["sound"]]
    findings = verify_trace(trace_id, events, head=head, marks=sound, part=part)
    known = bool(events or head or marks)
    return Replay(
        findings=(*findings, *altered), event_count=len(events), trace_count=int(known), checkpoint_count=len(marks)
    )


async def name_trace(connection: Connection, trace_id: str) -> None:
    """Let the transaction read this trace: row-level security hides every other."""
    await connection.execute("select set_config('formulary.trace', $1, true)", trace_id)
