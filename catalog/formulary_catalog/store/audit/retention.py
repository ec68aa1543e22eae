"""How long the trail is kept: whole months go, but for the traces that somebody holds or that have changed since."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime

import asyncpg

from formulary_catalog.domain.audit.checkpoint import CheckpointKind, SigningKey, Vouched, compose
from formulary_catalog.errors import InvalidInput, NotFound, Unavailable
from formulary_catalog.store.audit.checkpoints import TRACES_IN_ONE, end_checkpoint, require_key
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.owner import OwnerConnection, owner_connection

_MAX_MONTHS = 1200
_HELD = "exists (select from trace_hold where trace_hold.trace_id = trace_head.trace_id and released_at is null)"
# What was held may be as old as any other when it is released: that it was is no event that keeps it.
_CHANGED = """case when exists (select from trace_hold where trace_hold.trace_id = trace_head.trace_id) then (
    select coalesce(max(substr(body, 8, 27)), '') >= to_char($1 at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    from trace_event as event
    where event.trace_id = trace_head.trace_id and event.month = trace_head.month and kind not like 'hold.%'
) else changed_at >= $1 end"""
_MONTHS = f"""
select month, count(*) filter (where not held and old) as traces,
       coalesce(sum(seq) filter (where not held and old), 0)::bigint as events,
       count(*) filter (where held) as held, count(*) filter (where not held and not old) as in_use
from (
    select month, seq, {_HELD} as held, not {_CHANGED} and trace_id <> all ($2) as old from trace_head
) as head
where month < ($1 at time zone 'UTC')::date
group by month order by month
"""
_GOING = f"""
select trace_id, seq, hash from trace_head
where month = $2 and not {_CHANGED} and trace_id <> all ($3) and not {_HELD}
order by trace_id for update
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """What of a month goes: traces that began in it, and their events. Traces that are `held` or `in_use` stay.

    One that is not as it was written counts as in use: it is evidence.
    """

    month: date
    traces: int
    events: int
    held: int
    in_use: int


def months_ago(months: int, *, now: datetime) -> datetime:
    """The beginning of the month, in UTC, that is so many months before the current one.

    Raises:
        InvalidInput: the number is out of bounds.
    """
    if not 1 <= months <= _MAX_MONTHS:
        raise InvalidInput(f"{months} months is out of bounds; give 1 to {_MAX_MONTHS}", field="months")
    today = now.astimezone(UTC)
    year, month = divmod(today.year * 12 + today.month - 1 - months, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)


class Retention:
    """Holds traces and drops old ones, as the owner of the database."""

    def __init__(self, connection: OwnerConnection) -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str) -> "AsyncIterator[Retention]":
        """Connect.

        Raises:
            StartupError, Unavailable: no connection could be made, or the schema is not the one this version needs.
        """
        async with owner_connection(dsn) as connection:
            yield cls(connection)

    async def hold(self, trace_id: str, *, reason: str, by: str) -> None:
        """Keep a trace until it is released, however old it gets.

        Raises:
            NotFound: there is no such trace.
            InvalidInput: it is held already, or there is no reason.
        """
        if not reason.strip():
            raise InvalidInput("a hold needs a reason; say why the trace must be kept", field="reason")
        async with self._connection.transaction():
            # Locked, so that the trace is either held or gone.
            head = await self._connection.fetchval(
                "select seq from trace_head where trace_id = $1 for update", trace_id
            )
            if head is None:
                raise NotFound(f"there is no trace {trace_id!r}; see `formulary trace list`", reference=trace_id)
            try:
                await self._connection.execute(
                    "insert into trace_hold (trace_id, reason, placed_by) values ($1, $2, $3)", trace_id, reason, by
                )
            except asyncpg.UniqueViolationError as error:
                raise InvalidInput(f"trace {trace_id!r} is held already", field="trace_id") from error

    async def release(self, trace_id: str, *, by: str) -> None:
        """End a hold. That it was there, and why, stays recorded.

        Raises:
            NotFound: the trace is not held.
        """
        released = await self._connection.fetchval(
            """
            update trace_hold set released_by = $2, released_at = clock_timestamp()
            where trace_id = $1 and released_at is null returning id
            """,
            trace_id,
            by,
        )
        if released is None:
            raise NotFound(f"trace {trace_id!r} is not held", reference=trace_id)

    async def expirable(self, before: datetime) -> list[Month]:
        """What `expire` would drop, by month. Verifies the whole trail."""
        return await self._months(before, broken=await self._broken())

    async def expire(self, before: datetime, *, key: SigningKey | None) -> list[Month]:
        """Drop the traces that began in the months before a time, but for those held or changed since that time.

        Checkpoints of a kind of their own name what went, so that verification can distinguish it from what was taken
        away. What is not as it was written stays: else anybody who can make a trace look old could have it dropped with
        a signature.

        Raises:
            StartupError: there is no key, and checkpoints are signed.
            Unavailable: a month is in use for long, by a backup perhaps. Months before it are dropped.
        """
        await require_key(self._connection, key)
        broken = await self._broken()
        months = [month for month in await self._months(before, broken=broken) if month.traces]
        for month in months:
            try:
                async with self._connection.transaction():
                    await self._expire(month.month, before=before, broken=broken, key=key)
            except asyncpg.LockNotAvailableError as error:
                raise Unavailable(
                    f"the traces of {month.month:%Y-%m} are in use, by a backup or a verification perhaps; try again "
                    "when that is over"
                ) from error
        return months

    async def _broken(self) -> list[str]:
        """The traces that are not as they were written."""
        replay = await TraceReader(self._connection).verify()
        return sorted({finding.trace_id for finding in replay.findings if finding.trace_id})

    async def _months(self, before: datetime, *, broken: Sequence[str]) -> list[Month]:
        return [Month(**row) for row in await self._connection.fetch(_MONTHS, before, broken)]

    async def _expire(self, month: date, *, before: datetime, broken: Sequence[str], key: SigningKey | None) -> None:
        execute = self._connection.execute
        await execute("set local lock_timeout = '2s'")
        going = [Vouched(**row) for row in await self._connection.fetch(_GOING, before, month, broken)]
        names = [trace.trace_id for trace in going]
        await self._record(going, key=key)
        partition = f"trace_event_{month:%Y_%m}"
        # Nothing may come in between what is copied and what is dropped.
        await execute(f"lock table {partition} in share mode")
        await execute(f"create temporary table kept_event (like {partition}) on commit drop")
        await execute(f"insert into kept_event select * from {partition} where trace_id <> all ($1)", names)
        await execute(f"drop table {partition}")
        await execute("delete from trace_month where month = $1", month)
        if await self._connection.fetchval("select exists (select from kept_event)"):
            await execute("select create_trace_month($1)", month)
            await execute(f"insert into {partition} select * from kept_event")
        await execute("drop table kept_event")
        await execute("delete from trace_head where trace_id = any ($1)", names)

    async def _record(self, going: Sequence[Vouched], *, key: SigningKey | None) -> None:
        last = await self._connection.fetchrow("select last_id, last_hash from begin_checkpoint(0)")
        assert last is not None
        last_id, last_hash = last["last_id"], last["last_hash"]
        for start in range(0, len(going), TRACES_IN_ONE):
            at = datetime.now(UTC)
            lines = going[start : start + TRACES_IN_ONE]
            checkpoint = compose(
                kind=CheckpointKind.EXPIRED, after=last_id, previous=last_hash, at=at, lines=lines, key=key
            )
            await end_checkpoint(self._connection, checkpoint, at=at)
            last_id, last_hash = checkpoint.id, checkpoint.hash
