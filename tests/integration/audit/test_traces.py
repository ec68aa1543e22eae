"""The trail: chains that grow by appending alone, who may read them, checkpoints, holds and months that go."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from formulary_catalog.audit.stories import first_event
from formulary_catalog.domain.audit.chain import GENESIS, Problem, digest
from formulary_catalog.domain.audit.checkpoint import CheckpointKind, SigningKey, compose
from formulary_catalog.domain.moments import BEGINNING
from formulary_catalog.errors import InvalidInput, NotFound, StartupError, Unavailable
from formulary_catalog.store.audit.checkpoints import CheckpointStore, end_checkpoint, keep_checkpointing
from formulary_catalog.store.audit.events import TraceStore, append_event
from formulary_catalog.store.audit.listing import TraceFilter
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.audit.retention import Retention, months_ago
from formulary_catalog.store.database.connection import Connection, Database, Role
from support.trail import age, event, write_trace

KEY = SigningKey.generate()
LAST_YEAR = datetime(2025, 3, 1, tzinfo=UTC)
THIS_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def serving_role(database: str) -> AsyncIterator[Database]:
    opened = await Database.open(database, role=Role.SERVER, size=20, deadline=30)
    yield opened
    await opened.close()


@pytest.fixture
def traces(serving_role: Database) -> TraceStore:
    return TraceStore(serving_role)


@pytest.fixture
def checkpoints(writing: Database) -> CheckpointStore:
    return CheckpointStore(writing)


@pytest.fixture
async def reader(database: str) -> AsyncIterator[TraceReader]:
    async with TraceReader.open(database) as opened:
        yield opened


@pytest.fixture
async def owner(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database, server_settings={"search_path": "formulary, public"})
    yield connection
    await connection.close()


async def _age(owner: "asyncpg.Connection[asyncpg.Record]", trace_id: str) -> None:
    """Let a trace have happened last year."""
    await age(owner, trace_id, at=LAST_YEAR)


async def test_each_event_is_hashed_with_the_one_before_it(traces: TraceStore) -> None:
    search = uuid4()
    await traces.append(event("rr-1", 1, search_id=search, kind="search"))
    await traces.append(event("rr-1", 2))
    first, second = await traces.events("rr-1")
    assert [first.seq, second.seq] == [1, 2]
    assert (first.kind, first.caller, first.search_id) == ("search", "agent", str(search))
    assert first.payload == {**event("rr-1").payload, "caller": "agent", "search_id": str(search)}
    for stored, previous in ((first, GENESIS), (second, first.hash)):
        assert stored.hash == digest(stored.body)
        content = json.loads(stored.body)
        assert stored.body == json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert content.keys() == {"at", "kind", "payload", "previous", "seq", "trace_id"}
        assert (content["previous"], content["trace_id"], content["kind"]) == (previous, "rr-1", stored.kind)
        assert abs(stored.at - datetime.now(UTC)).total_seconds() < 60
    assert (await traces.verify("rr-1")).passed


async def test_twenty_appends_at_once_to_a_new_trace_give_one_unbroken_chain(traces: TraceStore) -> None:
    await asyncio.gather(*(traces.append(event("rr-1", number)) for number in range(20)))
    stored = await traces.events("rr-1")
    assert [each.seq for each in stored] == list(range(1, 21))
    assert {each.payload["number"] for each in stored} == set(range(20))
    replay = await traces.verify("rr-1")
    assert (replay.status, replay.event_count, replay.error_count) == ("PASS", 20, 0)


async def test_an_event_stays_only_if_what_it_records_does(traces: TraceStore, writing: Database) -> None:
    async def fails(connection: Connection) -> None:
        appended = await append_event(connection, event("rr-1"))
        assert appended.seq == 1
        raise NotFound("gone", reference="x")

    with pytest.raises(NotFound):
        await writing.write(fails)
    assert await traces.events("rr-1") == []
    await traces.append(event("rr-1"))
    assert (await traces.verify("rr-1")).passed


@pytest.mark.parametrize("trace_id", ['quo"te \\ back', "line\nbreak", "ünïcode 🚀", "' or true --", "r" * 253])
async def test_a_trace_may_have_any_id_that_an_incident_may_have(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader, trace_id: str
) -> None:
    await write_trace(traces, trace_id, 2)
    (checkpoint,) = await checkpoints.checkpoint(KEY)
    assert checkpoint.traces == 1
    for replay in (await traces.verify(trace_id), await reader.verify(trace_id), await reader.verify()):
        assert (replay.status, replay.event_count, replay.checkpoint_count) == ("PASS", 2, 1)


@pytest.mark.parametrize("payload", ["[]", '"text"', "1,2", "{} , {}", '{"search_id":"odd"}', '{"a":"\\u0000"}', "{}"])
async def test_what_is_no_payload_is_refused_by_the_database_itself(serving_role: Database, payload: str) -> None:
    with pytest.raises(Unavailable):
        await serving_role.execute("select append_trace('rr-1', 'search', $1)", payload)
    assert await TraceStore(serving_role).events("rr-1") == []


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_reads_only_the_trace_that_it_names(
    traces: TraceStore, checkpoints: CheckpointStore, database: str, role: Role
) -> None:
    await write_trace(traces, "rr-1", 2)
    await write_trace(traces, "rr-2", 3)
    await checkpoints.checkpoint(KEY)
    connection = await asyncpg.connect(database, user=role.value, server_settings={"search_path": "formulary"})
    count = "select (select count(*) from trace_event), (select count(*) from trace_head)"
    assert list(await connection.fetchrow(count) or ()) == [0, 0]
    await connection.execute("set formulary.trace = 'rr-1'")
    assert list(await connection.fetchrow(count) or ()) == [2, 1]
    assert await connection.fetchval("select count(*) from trace_marks('rr-1')") == 1
    assert await connection.fetchval("select count(*) from trace_marks('rr-2')") == 0
    await connection.close()


FORBIDDEN = [
    "update trace_event set caller = 'x'",
    "delete from trace_event",
    "truncate trace_event",
    "insert into trace_event select * from trace_event",
    "update trace_head set seq = 1",
    "delete from trace_head",
    "insert into trace_head select * from trace_head",
    "select * from trace_checkpoint",
    "delete from trace_checkpoint",
    "insert into trace_hold (trace_id, reason, placed_by) values ('x', 'x', 'x')",
    "select * from trace_hold",
    "select create_trace_month('2020-01-01')",
    "alter table trace_event disable trigger user",
    "drop table trace_event",
]


@pytest.mark.parametrize("role", list(Role))
async def test_no_role_may_change_the_trail(traces: TraceStore, database: str, role: Role) -> None:
    await write_trace(traces, "rr-1", 1)
    connection = await asyncpg.connect(
        database, user=role.value, server_settings={"search_path": "formulary", "formulary.trace": "rr-1"}
    )
    for statement in FORBIDDEN:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    await connection.close()


async def test_the_partitions_are_closed_to_the_roles(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    open_to = await owner.fetch(
        """
        select relname, rolname from pg_class cross join pg_roles
        where relnamespace = 'formulary'::regnamespace and relname like 'trace\\_event\\_2%' and relkind = 'r'
          and rolname like 'formulary\\_%'
          and has_table_privilege(rolname, pg_class.oid, 'select, insert, update, delete')
        """
    )
    assert open_to == []


async def test_the_trail_refuses_changes_to_its_owner_as_well(
    traces: TraceStore, checkpoints: CheckpointStore, owner: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await write_trace(traces, "rr-1", 1)
    await checkpoints.checkpoint(None)
    for table in ("trace_event", f"trace_event_{datetime.now(UTC):%Y_%m}", "trace_checkpoint"):
        for statement in (f"update {table} set body = ''", f"delete from {table}", f"truncate {table}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
                await owner.execute(statement)


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


async def test_checkpoints_vouch_for_what_changed_since_the_last_and_follow_each_other(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader
) -> None:
    await write_trace(traces, "rr-1", 2)
    await write_trace(traces, "rr-2", 1)
    (first,) = await checkpoints.checkpoint(KEY)
    assert await checkpoints.checkpoint(KEY) == []
    await write_trace(traces, "rr-2", 1)
    (second,) = await checkpoints.checkpoint(KEY)
    assert (first.traces, second.traces, second.previous) == (2, 1, first.hash)
    assert [line.split()[:2] for line in first.body.splitlines()[5:]] == [['"rr-1"', "2"], ['"rr-2"', "1"]]
    replay = await reader.verify(keys=[KEY.public])
    assert (replay.status, replay.event_count, replay.trace_count, replay.checkpoint_count) == ("PASS", 4, 2, 2)
    assert (replay.unsigned, replay.unchecked) == (0, 0)
    assert (await reader.verify()).unchecked == 2


@pytest.mark.parametrize("changes", [{"id": 9}, {"id": 0}, {"previous": "1" * 64}, {"hash": "1" * 64}, {"body": "x"}])
async def test_only_the_checkpoint_after_the_last_one_is_taken(
    traces: TraceStore, checkpoints: CheckpointStore, writing: Database, reader: TraceReader, changes: dict[str, Any]
) -> None:
    await write_trace(traces, "rr-1", 1)
    (first,) = await checkpoints.checkpoint(KEY)
    following = compose(kind=CheckpointKind.HEADS, after=1, previous=first.hash, at=THIS_YEAR, lines=[], key=KEY)

    async def write(connection: Connection) -> None:
        await end_checkpoint(connection, replace(following, **changes), at=THIS_YEAR)

    with pytest.raises(Unavailable) as refused:
        await writing.write(write)
    assert "not the checkpoint after the last one" in str(refused.value.__cause__)
    assert (await reader.verify(keys=[KEY.public])).checkpoint_count == 1


async def test_checkpoints_without_a_key_are_told_of(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader
) -> None:
    await write_trace(traces, "rr-1", 2)
    await checkpoints.checkpoint(None)
    replay = await reader.verify()
    assert (replay.status, replay.unsigned) == ("PASS", 1)
    (finding,) = (await reader.verify(keys=[KEY.public])).findings
    assert finding.problem is Problem.CHECKPOINT_UNSIGNED


async def test_many_changed_traces_are_vouched_for_in_several_checkpoints(
    traces: TraceStore, writing: Database, reader: TraceReader
) -> None:
    for number in range(5):
        await write_trace(traces, f"rr-{number}", 1)
    checkpoints = CheckpointStore(writing, traces_in_one=2)
    assert [each.traces for each in await checkpoints.checkpoint(KEY)] == [2, 2, 1]
    assert (await reader.verify(keys=[KEY.public])).passed


async def test_checkpoints_written_at_once_beside_appends_fit_together(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader
) -> None:
    appends = [write_trace(traces, f"rr-{number % 3}", 5) for number in range(6)]
    await asyncio.gather(*appends, *(checkpoints.checkpoint(KEY) for _ in range(5)))
    await checkpoints.checkpoint(KEY)
    replay = await reader.verify(keys=[KEY.public])
    assert (replay.findings, replay.event_count) == ((), 30)


async def _vouched_for(database: str, events: int) -> None:
    owner = await asyncpg.connect(database)
    for _ in itertools.count():
        if await owner.fetchval("select checkpointed from formulary.trace_head") == events:
            break
        await asyncio.sleep(0.02)
    await owner.close()


async def test_checkpoints_are_kept_up_until_cancelled(
    traces: TraceStore, checkpoints: CheckpointStore, reader: TraceReader, database: str
) -> None:
    keeping = asyncio.create_task(keep_checkpointing(checkpoints, every_seconds=0.01, key=KEY))
    await write_trace(traces, "rr-1", 3)
    async with asyncio.timeout(20):
        await _vouched_for(database, 3)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert (await reader.verify(keys=[KEY.public])).passed


async def test_a_trace_that_is_appended_to_has_its_turn_with_the_next_checkpoint(
    traces: TraceStore, checkpoints: CheckpointStore, serving_role: Database
) -> None:
    await write_trace(traces, "rr-1", 1)
    await write_trace(traces, "rr-2", 1)

    async def append_slowly(connection: Connection) -> None:
        await append_event(connection, event("rr-1", 2))
        (checkpoint,) = await checkpoints.checkpoint(KEY)
        assert [line.split()[0] for line in checkpoint.body.splitlines()[5:]] == ['"rr-2"']

    await serving_role.write(append_slowly)
    (checkpoint,) = await checkpoints.checkpoint(KEY)
    assert [line.split()[:2] for line in checkpoint.body.splitlines()[5:]] == [['"rr-1"', "2"]]


@pytest.mark.parametrize("role", list(Role))
async def test_nobody_verifies_or_prunes_who_sees_only_parts_of_the_trail(
    traces: TraceStore, database: str, role: Role
) -> None:
    await write_trace(traces, "rr-1", 1)
    dsn = database.replace("postgres@", f"{role}@")
    with pytest.raises(StartupError, match="connect as the database's owner"):
        async with TraceReader.open(dsn):
            pass
    with pytest.raises(StartupError, match="connect as the database's owner"):
        async with Retention.open(dsn):
            pass


async def test_traces_are_listed_by_when_they_changed_last(traces: TraceStore, reader: TraceReader) -> None:
    await write_trace(traces, "rr-1", 2)
    await write_trace(traces, "rr-2", 1)
    await traces.append(event("rr-1", kind="selection", caller="other"))
    first, second = await reader.rows(TraceFilter(since=BEGINNING), limit=10)
    assert (first.trace_id, first.events, first_event(first).caller) == ("rr-1", 3, "agent")
    assert (first.first_kind, first.last_kind, first.held, first.phase) == ("details", "selection", False, "")
    assert first_event(first).at < first_event(second).at <= second.changed_at < first.changed_at
    assert [each.trace_id for each in await reader.rows(TraceFilter(since=BEGINNING), limit=1)] == ["rr-1"]
    since = TraceFilter(since=first.changed_at)
    assert [each.trace_id for each in await reader.rows(since, limit=9)] == ["rr-1"]
    assert await reader.count() == 4
    assert [(each.trace_id, each.seq) async for each in reader.all_events()] == [
        ("rr-1", 1),
        ("rr-1", 2),
        ("rr-1", 3),
        ("rr-2", 1),
    ]


async def test_an_unknown_trace_has_no_events_and_nothing_wrong_with_it(
    traces: TraceStore, reader: TraceReader
) -> None:
    assert await traces.events("unknown") == await reader.events("unknown") == []
    for replay in (await traces.verify("unknown"), await reader.verify("unknown")):
        assert (replay.status, replay.event_count, replay.trace_count) == ("PASS", 0, 0)


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
