"""The trail: chains that grow by appending alone, and who may read them."""

import asyncio
import itertools
import json
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest

from formulary_catalog.domain.audit.chain import GENESIS, digest
from formulary_catalog.domain.moments import BEGINNING
from formulary_catalog.errors import NotFound, StartupError, Unavailable
from formulary_catalog.services.audit.stories import first_event
from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.events import TraceStore, append_event
from formulary_catalog.store.audit.listing import TraceFilter
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.audit.retention import Retention
from formulary_catalog.store.database.connection import Connection, Database, Role
from support.trail import KEY, event, write_trace


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
    "delete from trace_checkpoint",
    "update trace_checkpoint set hash = 'x'",
    "insert into trace_hold (trace_id, reason, placed_by) values ('x', 'x', 'x')",
    "update trace_hold set released_at = now()",
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


async def test_the_operator_reads_the_whole_trail_only_in_a_session_that_says_so_and_the_server_never(
    traces: TraceStore, database: str
) -> None:
    await write_trace(traces, "rr-1", 2)
    read: dict[tuple[Role, str], int] = {}
    for role, whole in itertools.product(Role, ("", "on")):
        settings = {"search_path": "formulary", "formulary.whole_trail": whole}
        connection = await asyncpg.connect(database, user=role.value, server_settings=settings)
        read[role, whole] = await connection.fetchval("select count(*) from trace_event")
        if role is Role.SERVER:
            for table in ("trace_checkpoint", "trace_hold"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(f"select * from {table}")
        await connection.close()
    assert read == {(Role.SERVER, ""): 0, (Role.SERVER, "on"): 0, (Role.WRITER, ""): 0, (Role.WRITER, "on"): 2}


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
