"""Months of the trail are prepared, held and dropped, and verification knows that they were meant to."""

from datetime import UTC, datetime

import asyncpg
import pytest

from formulary_catalog.domain.moments import BEGINNING
from formulary_catalog.errors import InvalidInput, NotFound, Unavailable
from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.audit.listing import TraceFilter
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.audit.retention import Retention, months_ago
from formulary_catalog.store.database.connection import Database, Role
from support.trail import KEY, THIS_YEAR, age, event, write_trace

LAST_YEAR = datetime(2025, 3, 1, tzinfo=UTC)


async def _age(owner: "asyncpg.Connection[asyncpg.Record]", trace_id: str) -> None:
    """Let a trace have happened last year."""
    await age(owner, trace_id, at=LAST_YEAR)


async def test_the_first_of_a_month_for_which_nobody_prepared_is_a_day_like_any_other(
    traces: TraceStore, reader: TraceReader, owner: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await owner.execute("select create_trace_month($1)", LAST_YEAR)
    for (month,) in await owner.fetch("select month from trace_month where month > $1", LAST_YEAR):
        await owner.execute(f"drop table trace_event_{month:%Y_%m}")
    await owner.execute("delete from trace_month where month > $1", LAST_YEAR)
    await write_trace(traces, "rr-1", 2)
    assert (await reader.verify()).event_count == 2
    assert await owner.fetchval("select count(*) from trace_event_2025_03") == 2


async def test_months_are_prepared_once_and_beside_those_who_read(
    checkpoints: CheckpointStore, traces: TraceStore, owner: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    newest = await owner.fetchval("select max(month) from trace_month")
    await owner.execute(f"drop table trace_event_{newest:%Y_%m}; delete from trace_month where month = '{newest}'")
    async with owner.transaction():
        await owner.fetch("select * from trace_event")
        await checkpoints.prepare_months()
        await traces.append(event("rr-1"))
    await checkpoints.prepare_months()
    assert await owner.fetchval("select max(month) from trace_month") == newest
    assert await owner.fetchval("select count(*) from pg_inherits where inhparent = 'trace_event'::regclass") == 13


async def test_old_months_go_and_verification_knows_that_they_were_meant_to(
    traces: TraceStore,
    checkpoints: CheckpointStore,
    reader: TraceReader,
    database: str,
    owner: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    for trace_id, events in (("old-1", 2), ("old-2", 3), ("new", 1)):
        await write_trace(traces, trace_id, events)
    for trace_id in ("old-1", "old-2"):
        await _age(owner, trace_id)
    await checkpoints.checkpoint(KEY)
    async with Retention.open(database) as retention:
        (month,) = await retention.expirable(THIS_YEAR)
        assert (month.month, month.traces, month.events) == (LAST_YEAR.date(), 2, 5)
        assert await retention.expire(THIS_YEAR, key=KEY) == [month]
        assert await retention.expirable(THIS_YEAR) == await retention.expire(THIS_YEAR, key=KEY) == []
    assert await owner.fetchval("select to_regclass('trace_event_2025_03')") is None
    replay = await reader.verify(keys=[KEY.public])
    assert (replay.findings, replay.event_count) == ((), 1)
    await write_trace(traces, "old-1", 1)
    await checkpoints.checkpoint(KEY)
    for replay in (await reader.verify(keys=[KEY.public]), await traces.verify("old-1")):
        assert replay.findings == ()


async def test_a_held_trace_and_one_in_use_outlive_their_month(
    traces: TraceStore,
    checkpoints: CheckpointStore,
    reader: TraceReader,
    database: str,
    owner: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    for trace_id in ("held", "in-use", "old"):
        await write_trace(traces, trace_id, 2)
        await _age(owner, trace_id)
    await write_trace(traces, "in-use", 1)
    await checkpoints.checkpoint(KEY)
    async with Retention.open(database) as retention:
        await retention.hold("held", reason="case 7", by="alice")
        (month,) = await retention.expire(THIS_YEAR, key=KEY)
        assert (month.traces, month.held, month.in_use) == (1, 1, 1)
        replay = await reader.verify(keys=[KEY.public])
        assert (replay.findings, replay.event_count) == ((), 6)
        (held,) = [each for each in await reader.rows(TraceFilter(since=BEGINNING), limit=9) if each.held]
        assert held.trace_id == "held"
        await retention.release("held", by="bob")
        (month,) = await retention.expire(THIS_YEAR, key=KEY)
        assert (month.traces, month.events) == (1, 4)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owner.execute("truncate trace_event_2025_03")
    replay = await reader.verify(keys=[KEY.public])
    assert (replay.findings, replay.event_count) == ((), 3)
    told = await owner.fetchrow("select reason, placed_by, released_by, released_at is not null from trace_hold")
    assert list(told or ()) == ["case 7", "alice", "bob", True]


async def test_a_month_that_is_in_use_stays_whole(
    traces: TraceStore, reader: TraceReader, database: str, owner: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await write_trace(traces, "old", 2)
    await _age(owner, "old")
    async with Retention.open(database) as retention, owner.transaction():
        await owner.fetch("select * from trace_event")
        with pytest.raises(Unavailable, match="2025-03 are in use"):
            await retention.expire(THIS_YEAR, key=KEY)
    replay = await reader.verify()
    assert (replay.findings, replay.event_count, replay.checkpoint_count) == ((), 2, 0)


async def test_only_a_trace_that_exists_is_held_once_and_with_a_reason(traces: TraceStore, database: str) -> None:
    await write_trace(traces, "rr-1", 1)
    async with Retention.open(database) as retention:
        with pytest.raises(NotFound, match="no trace 'rr-2'"):
            await retention.hold("rr-2", reason="r", by="alice")
        with pytest.raises(InvalidInput, match="reason"):
            await retention.hold("rr-1", reason=" ", by="alice")
        with pytest.raises(NotFound, match="is not held"):
            await retention.release("rr-1", by="alice")
        await retention.hold("rr-1", reason="r", by="alice")
        with pytest.raises(InvalidInput, match="held already"):
            await retention.hold("rr-1", reason="r", by="alice")


async def test_an_owner_who_is_no_superuser_keeps_a_trail(plain_owner: str) -> None:
    serving, writing = [await Database.open(plain_owner, role=role, deadline=30) for role in Role]
    traces, checkpoints = TraceStore(serving), CheckpointStore(writing)
    owner = await asyncpg.connect(plain_owner, server_settings={"search_path": "formulary"})
    await write_trace(traces, "rr-1", 2)
    await write_trace(traces, "rr-2", 1)
    await _age(owner, "rr-2")
    await checkpoints.prepare_months()
    assert len(await checkpoints.checkpoint(KEY)) == 1
    assert (await traces.verify("rr-1")).checkpoint_count == 1
    async with TraceReader.open(plain_owner) as reader, Retention.open(plain_owner) as retention:
        assert (await reader.verify(keys=[KEY.public])).event_count == 3
        assert len(await retention.expire(THIS_YEAR, key=KEY)) == 1
        replay = await reader.verify(keys=[KEY.public])
        assert (replay.findings, replay.event_count) == ((), 2)
    for opened in (serving, writing):
        await opened.close()
    await owner.close()


def test_months_are_counted_back_over_the_turn_of_the_year() -> None:
    now = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)
    assert months_ago(1, now=now) == datetime(2025, 12, 1, tzinfo=UTC)
    assert months_ago(13, now=now) == datetime(2024, 12, 1, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="0 months"):
        months_ago(0, now=now)
