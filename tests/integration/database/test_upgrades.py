"""The database of the release before (commit e71c4e0) is opened in place, and its programs go on beside ours.

`upgrades/make_dump.py` says how its dump and the statements of its programs were made.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from formulary_catalog.domain.audit.chain import HOLD_PLACED, StoredEvent
from formulary_catalog.domain.audit.checkpoint import PublicKey, SigningKey
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.moments import BEGINNING
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.settings import Settings
from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.listing import TraceFilter
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import HEAD, migrate, schema_revision
from formulary_catalog.store.database.owner import owner_connection
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import playing
from support.databases import as_user, migrated_database
from support.databases import empty_database as an_empty_database
from support.runnable import PRODUCTION, STAGING
from support.services import open_parts, service_on

_BEFORE = Path(__file__).parent / "upgrades"
OLD_KEYS = PublicKey.load((_BEFORE / "e71c4e0.pub").read_bytes())
STATEMENTS = json.loads((_BEFORE / "e71c4e0-statements.json").read_text(encoding="utf-8"))
KEY = SigningKey.generate()
_APPEND = "select seq, hash, at from formulary.append_trace($1, $2, $3)"
_PROGRAMS = ("select", "insert", "update", "delete", "with entered")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    """The model of the release before, whose vectors the catalog has until somebody changes it."""
    return load_embedder("all-MiniLM-L6-v2")


async def _restore(dsn: str) -> None:
    """Make the database what the release before left, with the user of the DSN as its owner."""
    owner = await asyncpg.connect(dsn)
    await owner.execute("create extension if not exists vector")
    await owner.execute(gzip.decompress((_BEFORE / "e71c4e0.sql.gz").read_bytes()).decode())
    await owner.close()


@pytest.fixture
async def before(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of the database as the release before left it."""
    async with migrated_database(postgres), an_empty_database(postgres) as dsn:  # the former sees to the roles
        await _restore(dsn)
        yield dsn


@pytest.fixture
async def upgraded(before: str) -> str:
    """The same, migrated."""
    await asyncio.to_thread(migrate, before)
    return before


async def _events(dsn: str, trace_id: str) -> list[StoredEvent]:
    async with TraceReader.open(dsn) as reader:
        return await reader.events(trace_id)


async def test_its_trail_is_as_it_was_written_with_the_key_of_then_and_goes_on_in_the_same_chains(
    upgraded: str, embedder: Embedder
) -> None:
    assert await schema_revision(upgraded) == HEAD
    async with TraceReader.open(upgraded) as reader:
        replay = await reader.examine(keys=OLD_KEYS)
        assert (replay.findings, replay.unsigned, replay.checkpoint_count) == ((), 0, 2)
        assert {trace.trace_id: trace.held for trace in await reader.rows(TraceFilter(since=BEGINNING), limit=9)} == {
            "rr-staging": True,
            "rr-production": False,
        }
    last = (await _events(upgraded, "rr-staging"))[-1]
    assert (last.kind, last.caller) == (HOLD_PLACED, "alice"), "a hold of before leaves its event"

    request = search_request(query="OOMKilled critical", top_k=3, context=STAGING)
    async with open_parts(upgraded, embedder=embedder) as parts:
        answer = await service_on(parts).search(request, caller=LOCAL)
    assert answer.workflows
    assert answer.search_mode == "hybrid"
    searched = (await _events(upgraded, "rr-staging"))[-1]
    assert (searched.kind, searched.seq, searched.content["previous"]) == ("search", last.seq + 1, last.hash)

    writing = await Database.open(upgraded, role=Role.WRITER, deadline=30)
    (checkpoint,) = await CheckpointStore(writing).checkpoint(KEY)
    await writing.close()
    async with TraceReader.open(upgraded) as reader:
        replay = await reader.examine(keys=[*OLD_KEYS, KEY.public])
    assert (replay.findings, checkpoint.id) == ((), 3)


async def test_its_runs_go_on_and_new_ones_are_asked_for_and_approved(upgraded: str, embedder: Embedder) -> None:
    owner = await asyncpg.connect(upgraded)
    async with open_parts(upgraded, embedder=embedder) as parts:
        runs = Services.on(parts, settings=Settings()).invocations
        for row in await owner.fetch("select id from formulary.invocation"):
            assert (await runs.status(row["id"], caller=LOCAL)).phase
        async with playing.operator(upgraded):
            waits = await runs.invoke(
                InvocationRequest(workflow_id="risky", input={"REPLICAS": 2}), context=PRODUCTION, caller=LOCAL
            )
            await runs.approve(waits.invocation_id, decision=ApprovalDecision.APPROVE, reason="checked", caller=LOCAL)
        kinds = [event.kind for event in await _events(upgraded, "rr-production")]
        assert kinds.count("invocation.approved") == 2
    await owner.close()


@pytest.mark.parametrize("by_owner", [True, False], ids=["owner", "superuser"])
async def test_its_owner_or_a_superuser_migrates_it_and_names_in_its_workflows_become_edges(
    database: str, empty_database: str, by_owner: bool
) -> None:
    admin = await asyncpg.connect(empty_database)
    name = await admin.fetchval("select current_database()")
    role = f"owner_{name}"
    await admin.execute("create extension if not exists vector")
    await admin.execute(f"create role {role} login; grant formulary_server, formulary_writer to {role}")
    await admin.execute(f"alter database {name} owner to {role}")
    theirs = as_user(empty_database, role)
    try:
        await _restore(theirs)
        names = ["base", "shop/base@1.0.0", "wf_ver_0123456789abcdef0123"]
        await admin.execute(
            "update formulary.workflow_version set document = jsonb_set(document, '{spec,related}', $1) "
            "where name = 'risky'",
            json.dumps([{"relation": "requires", "name": each} for each in names]),
        )
        await asyncio.to_thread(migrate, theirs if by_owner else empty_database)

        edges = await admin.fetch("select namespace, name from formulary.workflow_relation order by name, namespace")
        assert [tuple(edge) for edge in edges] == [("", "base"), ("shop", "base"), ("", names[-1])]
        async with open_parts(theirs) as parts:
            await service_on(parts).search(search_request(query="anything", context=STAGING), caller=LOCAL)
        async with owner_connection(theirs) as connection:
            kinds = await connection.fetch("select kind from formulary.trace_event where trace_id = 'rr-staging'")
            await connection.execute("create temporary table made (id integer)")
        assert [row["kind"] for row in kinds[-2:]] == [HOLD_PLACED, "search"]
    finally:
        await admin.execute(f"alter database {name} owner to postgres; reassign owned by {role} to postgres")
        await admin.execute(f"drop owned by {role}; drop role {role}")
        await admin.close()


async def test_every_statement_of_its_programs_still_means_something_to_their_roles(upgraded: str) -> None:
    for role in Role:
        connection = await asyncpg.connect(
            upgraded, server_settings={"role": role.value, "search_path": "formulary, public"}
        )
        asked = [each["sql"] for each in STATEMENTS if each["role"] == role.value]
        programs = [sql for sql in asked if sql.strip().lower().startswith(_PROGRAMS)]
        assert len(programs) > 20
        for sql in programs:
            # Planned and begun, with its parameters open: columns, functions and rights are looked at, no row is.
            await connection.execute(f"explain (generic_plan) {sql}")
        await connection.close()


async def test_a_server_of_the_release_before_records_its_calls_while_the_database_is_migrated(before: str) -> None:
    server = await asyncpg.connect(
        before, user=Role.SERVER.value, server_settings={"search_path": "formulary, public"}, command_timeout=20
    )
    migrating = asyncio.create_task(asyncio.to_thread(migrate, before))
    recorded = 0
    payload = json.dumps({"caller": "agent", "action": "list", "outcome": "ok"})
    while not migrating.done() or not recorded:
        async with server.transaction():
            await server.fetchrow(_APPEND, "rr-staging", "list", payload)
            recorded += 1
    await migrating
    await server.fetchrow(_APPEND, "rr-staging", "list", payload)
    await server.close()
    async with TraceReader.open(before) as reader:
        assert (await reader.examine(keys=OLD_KEYS)).findings == ()
    kinds = [event.kind for event in await _events(before, "rr-staging")]
    assert kinds.count("list") == recorded + 1


async def test_a_migration_gives_up_its_locks_where_a_server_of_the_release_before_takes_long(before: str) -> None:
    """Nobody else waits for longer than a second behind it, and it comes to its end."""
    slow = await asyncpg.connect(before)
    await slow.execute(
        "begin; lock table formulary.invocation_approval, formulary.trace_hold in access share mode; "
        "select * from formulary.trace_event limit 1"
    )
    migrating = asyncio.create_task(asyncio.to_thread(migrate, before))
    server = await asyncpg.connect(before, user=Role.SERVER.value, server_settings={"search_path": "formulary, public"})
    for _ in range(5):
        await server.fetch("select * from invocation_approval", timeout=15)
        await server.fetchrow(_APPEND, "rr-staging", "list", json.dumps({"caller": "agent"}), timeout=15)
    await server.close()
    await slow.close()
    await migrating
    assert await schema_revision(before) == HEAD
