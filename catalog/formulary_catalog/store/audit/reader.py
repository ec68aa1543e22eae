"""The whole trail as the owner of the database reads it: listed, verified, exported."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg

from formulary_catalog.domain.audit.chain import Head, IntegrityFinding, Mark, StoredEvent
from formulary_catalog.domain.audit.checkpoint import Checkpoint, CheckpointCheck, PublicKey, Seen
from formulary_catalog.domain.audit.verification import Replay, TraceCheck, verify_trace
from formulary_catalog.store.audit.guards import guard_findings
from formulary_catalog.store.audit.listing import TraceFilter, TraceRow, states_of
from formulary_catalog.store.audit.one_trace import AT, EVENT, events_of, head_of, names_later, naming_body
from formulary_catalog.store.audit.publishing import disagreement
from formulary_catalog.store.database.owner import OwnerConnection, owner_connection

_AT_ONCE = 500
"""Events that are fetched at a time: they may be large."""
_BODIES_AT_ONCE = 4

_PHASE = """coalesce((
    select invocation.phase from invocation where invocation.trace_id = head.trace_id
    order by dry_run or degraded, created_at desc limit 1), '')"""
_NAMESPACES = """coalesce(
    (select array_agg(distinct namespace order by namespace) from sealed_constraints as sealed
     where sealed.trace_id = head.trace_id),
    (select array_agg(distinct namespace order by namespace) from invocation
     where invocation.trace_id = head.trace_id),
    '{}')"""
# Of the newest run and the namespaces of a trace, as `traces_in` has them; but what people read is listed too, and what
# tampering left of a trace.
_LIST = rf"""
select head.trace_id, head.seq as events, head.changed_at, {_PHASE} as phase, {_NAMESPACES} as namespaces,
       coalesce(first.body, '') as first_body, coalesce(first.kind, '') as first_kind,
       coalesce(last.kind, '') as last_kind,
       exists (select from trace_hold where trace_hold.trace_id = head.trace_id and released_at is null) as held
from (
    select * from trace_head as head
    where changed_at >= $2
      and ($3 = '' or trace_id = $3)
      and ($4 = '' or $4 = any ({_NAMESPACES}))
      and ($5::text[] is null or {_PHASE} = any ($5::text[]))
      and (not $6 or $3 <> '' or trace_id not like 'tr\_%' or {_PHASE} <> '')
    order by changed_at desc, trace_id limit $1
) as head
left join lateral (
    select body, kind from trace_event where trace_event.trace_id = head.trace_id and month = head.month
    order by seq limit 1) as first on true
left join lateral (
    select kind from trace_event where trace_event.trace_id = head.trace_id and month = head.month
    order by seq desc limit 1) as last on true
order by head.changed_at desc, head.trace_id
"""
# Every trace that has events, a head or a checkpoint: tampering may have left any one of them alone.
_SUBJECTS = f"""
select trace_id, head.seq, head.hash, {AT}, head.checkpointed, mark.checkpoints, mark.seqs, mark.hashes, mark.expired,
       exists (
           select from trace_hold as hold
           where hold.trace_id = coalesce(event.trace_id, head.trace_id) and released_at is null
       ) as held
from (select distinct trace_id from trace_event) as event
full join trace_head as head using (trace_id)
full join (
    select trace_id, array_agg(checkpoint order by checkpoint) as checkpoints,
           array_agg(seq order by checkpoint) as seqs, array_agg(hash order by checkpoint) as hashes,
           array_agg(expired order by checkpoint) as expired
    from trace_mark group by trace_id
) as mark using (trace_id)
order by trace_id
"""
_MARKS = """
create temporary table trace_mark (
    trace_id text collate "C" not null, checkpoint bigint not null, seq bigint not null, hash text not null,
    expired boolean not null
) on commit drop
"""


class TraceReader:
    """The whole trail, as the owner of the database reads it."""

    def __init__(self, connection: OwnerConnection) -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, *, to_verify: bool = False) -> "AsyncIterator[TraceReader]":
        """Connect. `to_verify`, the operator's role will do as well as the owner.

        Raises:
            StartupError, Unavailable: no connection could be made, or the schema is not the one this version needs.
        """
        async with owner_connection(dsn, to_verify=to_verify) as connection:
            yield cls(connection)

    async def rows(self, wanted: TraceFilter, *, limit: int) -> list[TraceRow]:
        """The traces that are wanted, those that changed last first; `first_body` is empty where no event is left."""
        rows = await self._connection.fetch(
            _LIST,
            limit,
            wanted.since,
            wanted.trace_id,
            wanted.namespace,
            None if wanted.phases is None else sorted(wanted.phases),
            wanted.of_incidents,
        )
        listed = [TraceRow(**{**row, "namespaces": tuple(row["namespaces"])}) for row in rows]
        states = await states_of(self._connection, [row.trace_id for row in listed if row.phase])
        listed = [replace(row, state=states.get(row.trace_id, "")) for row in listed]
        return [
            replace(row, naming_body=await naming_body(self._connection, row.trace_id))
            if names_later(row.trace_id, first_body=row.first_body, namespaces=row.namespaces)
            else row
            for row in listed
        ]

    async def count(self) -> int:
        """How many events there are, as far as the heads of the traces say."""
        return int(await self._connection.fetchval("select coalesce(sum(seq), 0) from trace_head"))

    async def events(self, trace_id: str) -> list[StoredEvent]:
        """The events of a trace, in order; none where there is no such trace."""
        return await events_of(self._connection, trace_id)

    async def all_events(self) -> AsyncGenerator[StoredEvent, None]:
        """Every event, trace by trace."""
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            async for event in self._stream():
                yield event

    async def verify(
        self,
        trace_id: str | None = None,
        *,
        keys: Sequence[PublicKey] = (),
        seen: Iterable[Seen] = (),
        progress: Callable[[int], None] | None = None,
    ) -> Replay:
        """Whether one trace, or all of the trail, is as it was written, at one moment.

        `keys` are those that checkpoints may be signed with; without any, signatures are only counted. Checkpoints
        that were `seen` before must be there. `progress` is called with the number of events verified since the last
        call. Verifying all needs a database that can be written to, no standby: what checkpoints say is sorted there.
        """
        async with self._connection.transaction(isolation="repeatable_read"):
            check = CheckpointCheck(keys, seen=seen)
            if trace_id is not None:
                return await self._verify_one(trace_id, check=check)
            return await self._verify_all(check=check, progress=progress or (lambda looked_at: None))

    async def examine(
        self,
        *,
        keys: Sequence[PublicKey] = (),
        seen: Iterable[Seen] = (),
        progress: Callable[[int], None] | None = None,
    ) -> Replay:
        """`verify` of all, and whether what protects the trail is as the migrations made it."""
        replay = await self.verify(keys=keys, seen=seen, progress=progress)
        return replace(replay, findings=(*await guard_findings(self._connection), *replay.findings))

    async def doubts(self, *, published: Sequence[Seen] = ()) -> list[IntegrityFinding]:
        """What a short look finds: whatever protects the trail, and the newest of the published checkpoints."""
        findings = await guard_findings(self._connection)
        if published:
            last = max(published, key=lambda seen: seen.id)
            hash_ = await self._connection.fetchval("select hash from trace_checkpoint where id = $1", last.id)
            if hash_ != last.hash:
                findings.append(disagreement(last, found=Seen(last.id, hash_) if hash_ is not None else None))
        return findings

    async def _verify_one(self, trace_id: str, *, check: CheckpointCheck) -> Replay:
        marks = [mark async for vouched in self._checkpoints(check) for trace, mark in vouched if trace == trace_id]
        head = await head_of(self._connection, trace_id)
        events = await events_of(self._connection, trace_id)
        held = await self._connection.fetchval(
            "select exists (select from trace_hold where trace_id = $1 and released_at is null)", trace_id
        )
        findings = verify_trace(trace_id, events, head=head, marks=marks, held=held)
        known = bool(events or head or marks)
        return _replay(check, findings, event_count=len(events), trace_count=int(known))

    async def _verify_all(self, *, check: CheckpointCheck, progress: Callable[[int], None]) -> Replay:
        await self._connection.execute(_MARKS)
        async for vouched in self._checkpoints(check):
            records = [(trace, mark.checkpoint, mark.seq, mark.hash, mark.expired) for trace, mark in vouched]
            await self._connection.copy_records_to_table("trace_mark", records=records, schema_name="pg_temp")
        findings: list[IntegrityFinding] = []
        trace_count = event_count = 0
        events = self._stream()
        event = await anext(events, None)
        async for subject in self._connection.cursor(_SUBJECTS, prefetch=_AT_ONCE):
            trace, before = TraceCheck(subject["trace_id"]), event_count
            while event is not None and event.trace_id == subject["trace_id"]:
                trace.add(event)
                event_count += 1
                event = await anext(events, None)
            findings += trace.finish(head=_head(subject), marks=_marks(subject), held=subject["held"])
            trace_count += 1
            progress(event_count - before)
        return _replay(check, findings, event_count=event_count, trace_count=trace_count)

    async def _checkpoints(self, check: CheckpointCheck) -> AsyncIterator[list[tuple[str, Mark]]]:
        """What each checkpoint vouches for; `check` sees them all."""
        query = "select id, body, previous, hash, key_id, signature from trace_checkpoint order by id"
        async for row in self._connection.cursor(query, prefetch=_BODIES_AT_ONCE):
            yield check.add(Checkpoint(**row))

    async def _stream(self) -> AsyncIterator[StoredEvent]:
        query = f"select {EVENT} from trace_event order by trace_event.trace_id, seq, month"
        async for row in self._connection.cursor(query, prefetch=_AT_ONCE):
            yield StoredEvent(**row)


def _replay(
    check: CheckpointCheck, findings: Sequence[IntegrityFinding], *, event_count: int, trace_count: int
) -> Replay:
    return Replay(
        findings=(*check.finish(events=event_count), *findings),
        event_count=event_count,
        trace_count=trace_count,
        checkpoint_count=check.count,
        unsigned=check.unsigned,
        unchecked=check.unchecked,
        newest=check.newest,
        proven=check.proven,
    )


def _head(subject: asyncpg.Record) -> Head | None:
    if subject["seq"] is None:
        return None
    return Head(**{field: subject[field] for field in ("seq", "hash", "at", "checkpointed")})


def _marks(subject: asyncpg.Record) -> list[Mark]:
    if subject["seqs"] is None:
        return []
    columns = (subject["checkpoints"], subject["seqs"], subject["hashes"], subject["expired"])
    return [Mark(*mark) for mark in zip(*columns, strict=True)]
