"""Somebody who has the server's password, or all of the database, wants the trail to say something else."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.audit.chain import Problem
from formulary_catalog.domain.audit.checkpoint import Seen, SigningKey
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.services.runs.service import InvocationService
from formulary_catalog.settings import Settings
from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.audit.publishing import FilePlace, publish
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.audit.retention import Retention
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.owner import OwnerConnection as Connection
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.api.names import CONFIG_MAPS, EVENTS
from formulary_operator.audit import Auditing, ConfigMapPlace
from formulary_operator.kube.events import EventRecorder
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings
from support.commands import formulary
from support.control_plane import Cluster
from support.databases import migrated_database
from support.kube_clients import connected
from support.runnable import PRODUCTION, runnable_database
from support.services import open_parts
from support.trail import write_trace

KEY = SigningKey.generate()


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with runnable_database(postgres, tmp_path_factory.mktemp("manifests")) as database:
        yield database


@pytest.fixture
async def thief(dsn: str) -> AsyncIterator[Connection]:
    """Somebody who has the password of the server's role."""
    connection = await asyncpg.connect(dsn, user=Role.SERVER.value)
    yield connection
    await connection.close()


@pytest.fixture
async def waiting(dsn: str) -> AsyncIterator[tuple[InvocationService, str]]:
    """The server, and a run that awaits approval."""
    owner = await asyncpg.connect(dsn)
    await owner.execute(
        "insert into formulary.executor values ('test', '{job}', clock_timestamp() + interval '1 hour') "
        "on conflict do nothing"
    )
    async with open_parts(dsn) as parts:
        service = Services.on(parts, settings=Settings()).invocations
        request = InvocationRequest(workflow_id="risky", input={"REPLICAS": 3})
        answer = await service.invoke(request, context=PRODUCTION, caller=LOCAL)
        assert answer.state == "approval_required" or answer.phase == "AwaitingApproval"
        yield service, answer.invocation_id
    await owner.execute("delete from formulary.invocation_approval; delete from formulary.executor")
    await owner.execute("update formulary.invocation set phase = 'Cancelled'")
    await owner.close()


async def _append(connection: Connection, kind: str, trace_id: str = "rr-production", **payload: Any) -> None:
    await connection.execute("select formulary.append_trace($1, $2, $3)", trace_id, kind, json.dumps(payload))


@pytest.mark.parametrize(
    "kind",
    [
        "invocation.approved",
        "invocation.rejected",
        "invocation.requested",
        "invocation.decided",
        "invocation.started",
        "invocation.finished",
        "invocation.cancelled",
        "hold.placed",
        "hold.released",
        "halt.lifted",
        "anything else",
    ],
)
async def test_the_server_cannot_say_what_it_did_not_do(
    waiting: tuple[InvocationService, str], thief: Connection, kind: str
) -> None:
    said = {"caller": "alice", "approver": "alice", "invocation_id": waiting[1], "phase": "Succeeded"}
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not append an event of the kind"):
        await _append(thief, kind, **said)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not append an event of the kind"):
        await thief.execute(
            "select formulary.append_sealed($1, $2, $3, 'x', 'x', '{}')", "rr-production", kind, json.dumps(said)
        )


async def test_the_server_cannot_take_on_a_role_that_may(thief: Connection) -> None:
    for statement in (f"set role {Role.WRITER}", "select set_config('role', 'formulary_writer', false)"):
        with pytest.raises(asyncpg.PostgresError):
            await thief.execute(statement)
    for function in ("may_append('rr-1', 'search', '{}')", "record_hold()"):
        with pytest.raises(asyncpg.PostgresError):
            await thief.execute(f"select formulary.{function}")


async def test_an_approval_that_the_server_took_is_recorded_and_cannot_be_recorded_again(
    waiting: tuple[InvocationService, str], thief: Connection, dsn: str
) -> None:
    service, invocation_id = waiting
    await service.approve(invocation_id, decision=ApprovalDecision.APPROVE, reason="checked", caller=LOCAL)
    for approver in (LOCAL.name, "alice"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await _append(
                thief, "invocation.approved", caller=approver, approver=approver, invocation_id=invocation_id, object=""
            )
    owner = await asyncpg.connect(dsn)
    callers = await owner.fetch(
        "select caller from formulary.trace_event where kind = 'invocation.approved' and body like $1",
        f"%{invocation_id}%",
    )
    assert [row["caller"] for row in callers] == [LOCAL.name]
    await owner.close()


async def test_who_feeds_the_catalog_cannot_place_or_release_holds(dsn: str) -> None:
    writer = await asyncpg.connect(dsn, user=Role.WRITER.value)
    for kind in ("hold.placed", "hold.released"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await _append(writer, kind, caller="alice")
    await _append(writer, "invocation.started", caller="formulary-operator")
    await writer.close()


@pytest.fixture
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database with two traces, for which a signed checkpoint vouches."""
    async with migrated_database(postgres) as database:
        serving = await Database.open(database, role=Role.SERVER, deadline=30)
        await write_trace(TraceStore(serving), "rr-1", 3)
        await write_trace(TraceStore(serving), "rr-2", 2)
        await serving.close()
        yield database


@pytest.fixture
async def checkpoints(database: str) -> AsyncIterator[CheckpointStore]:
    writing = await Database.open(database, role=Role.WRITER, deadline=30)
    yield CheckpointStore(writing)
    await writing.close()


@pytest.fixture
async def owner(database: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database, server_settings={"search_path": "formulary"})
    yield connection
    await connection.close()


async def _found(database: str, *, seen: tuple[Seen, ...] = ()) -> set[tuple[Problem, str]]:
    async with TraceReader.open(database) as reader:
        replay = await reader.examine(keys=[KEY.public], seen=seen)
        return {(finding.problem, finding.trace_id) for finding in replay.findings}


async def test_that_no_checkpoint_is_there_is_found_where_there_is_a_key(
    database: str, checkpoints: CheckpointStore, owner: Connection
) -> None:
    assert await _found(database) == {(Problem.CHECKPOINT_MISSING, "")}
    await checkpoints.checkpoint(KEY)
    assert await _found(database) == set()
    await owner.execute("alter table trace_checkpoint disable trigger user; delete from trace_checkpoint")
    await owner.execute("alter table trace_checkpoint enable trigger user; update trace_head set checkpointed = 0")
    assert await _found(database) == {(Problem.CHECKPOINT_MISSING, "")}


async def test_a_hold_that_was_deleted_or_ended_unseen_is_found(
    database: str, checkpoints: CheckpointStore, owner: Connection
) -> None:
    async with Retention.open(database) as retention:
        await retention.hold("rr-1", reason="case 7", by="alice")
        await retention.hold("rr-2", reason="case 8", by="alice")
        await retention.release("rr-2", by="bob")
    await checkpoints.checkpoint(KEY)
    assert await _found(database) == set()
    for statement in ("delete from trace_hold", "truncate trace_hold"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await owner.execute(statement)
    await owner.execute("alter table trace_hold disable trigger user")
    for bent in ("update trace_hold set released_at = now(), released_by = 'x'", "delete from trace_hold"):
        await owner.execute(bent)
        assert (Problem.HOLD_MISSING, "rr-1") in await _found(database)
    async with TraceReader.open(database) as reader:
        assert [finding.problem for finding in (await reader.verify("rr-1")).findings] == [Problem.HOLD_MISSING]


BENT = [
    ("function-changed", "create or replace function may_append(in_trace text, in_kind text, payload jsonb) returns "
     "boolean language sql as 'select true'"),
    ("function-changed", "alter function append_trace(text, text, text) security invoker"),
    ("function-changed", "alter function append_trace(text, text, text) reset search_path"),
    ("function-changed", "create function append_trace(varchar, varchar, varchar, out seq bigint, out hash text, "
     "out at timestamptz) language sql as 'select 1::bigint, null, now()'"),
    ("function-changed", "drop function append_sealed(text, text, text, text, text, text)"),
    ("function-changed", "create or replace function refuse_trace_change() returns trigger language plpgsql as "
     "'begin return null; end'"),
    ("trigger-changed", "alter table trace_event disable trigger keep_rows"),
    ("trigger-changed", "drop trigger keep_table on trace_checkpoint"),
    ("trigger-changed", "do $$ begin execute format('alter table %s disable trigger user', "
     "(select min(inhrelid::regclass::text) from pg_inherits where inhparent = 'trace_event'::regclass)); end $$"),
    ("trigger-changed", "create trigger lose before insert on trace_head for each row "
     "execute function suppress_redundant_updates_trigger()"),
    ("trigger-changed", "grant insert on trace_event to formulary_server"),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "statement"), BENT)
async def test_functions_and_triggers_that_were_replaced_are_found(
    database: str, checkpoints: CheckpointStore, owner: Connection, problem: str, statement: str
) -> None:
    await checkpoints.checkpoint(KEY)
    assert await _found(database) == set()
    await owner.execute(statement)
    assert await _found(database) == {(Problem(problem), "")}


async def test_checkpoints_that_were_dropped_and_signed_anew_disagree_with_what_was_published(
    database: str, checkpoints: CheckpointStore, owner: Connection, tmp_path: Path
) -> None:
    place = FilePlace(tmp_path / "published")
    await checkpoints.checkpoint(KEY)
    assert await publish(checkpoints, place) == []
    published = await place.read()
    assert [each.id for each in published] == [1]
    assert await _found(database, seen=published) == set()
    await owner.execute("alter table trace_checkpoint disable trigger user; delete from trace_checkpoint")
    await owner.execute("update trace_head set checkpointed = 0")
    for drop in ("select 1", "delete from trace_event where trace_id = 'rr-2'"):
        await owner.execute("alter table trace_event disable trigger user")
        await owner.execute(drop)
        await owner.execute("alter table trace_event enable trigger user")
    await owner.execute("delete from trace_head where trace_id = 'rr-2'")
    await owner.execute("alter table trace_checkpoint enable trigger user")
    (gone,) = await publish(checkpoints, place)
    assert (gone.problem, gone.seq) == (Problem.CHECKPOINT_MISSING, 1)
    await checkpoints.checkpoint(KEY)
    assert await _found(database) == set(), "the database alone looks whole"
    (other,) = await publish(checkpoints, place)
    assert (other.problem, other.seq) == (Problem.CHECKPOINT_EDITED, 1)
    assert await place.read() == published, "what was published stays as evidence"
    assert await _found(database, seen=published) == {(Problem.CHECKPOINT_EDITED, "")}

    settings = {"FORMULARY_AUDIT_PUBLISHED": str(tmp_path / "published"), "FORMULARY_DATABASE_URL": database}
    verified = await formulary("trace", "verify", **settings)
    assert (verified.code, "another one was seen in its place" in verified.out) == (1, True), verified
    examined = json.loads((await formulary("doctor", "--json", **settings)).out)
    (check,) = [each for each in examined["checks"] if each["name"] == "trail"]
    assert check["detail"] == "checkpoint 1 another one was published in its place"


async def test_a_tail_that_was_cut_with_its_signed_checkpoint_is_never_called_verified(
    database: str, checkpoints: CheckpointStore, owner: Connection, tmp_path: Path
) -> None:
    await checkpoints.checkpoint(KEY)
    heads = await owner.fetch("select trace_id, month, seq, hash, changed_at, checkpointed from trace_head")
    serving = await Database.open(database, role=Role.SERVER, deadline=30)
    await write_trace(TraceStore(serving), "rr-1", 1)
    await serving.close()
    await checkpoints.checkpoint(KEY)
    place = FilePlace(tmp_path / "published")
    assert await publish(checkpoints, place) == []
    public = tmp_path / "audit.pem.pub"
    public.write_bytes(KEY.public.pem())
    command, key = ("trace", "verify", "--database-url", database), {"FORMULARY_AUDIT_PUBLIC_KEY_FILE": str(public)}
    whole = await formulary(*command, "--published", str(tmp_path / "published"), **key)
    assert (whole.code, whole.out.splitlines()[0][:11]) == (0, "✓ 6 events ")

    await owner.execute(
        "alter table trace_checkpoint disable trigger user; alter table trace_event disable trigger user"
    )
    await owner.execute("delete from trace_checkpoint where id = 2; delete from trace_event where seq = 4")
    await owner.executemany(
        "update trace_head set seq = $3, hash = $4, changed_at = $5, checkpointed = $6 "
        "where (trace_id, month) = ($1, $2)",
        [tuple(row) for row in heads],
    )
    await owner.execute("alter table trace_checkpoint enable trigger user; alter table trace_event enable trigger user")

    alone = await formulary(*command, **key)
    assert "✓" not in alone.out
    assert alone.out.startswith(
        "! 5 events of 2 traces, 1 checkpoint: as they were written, but NOTHING PROVES THE TAIL"
    )
    assert (
        "could be missing, with their checkpoints, signed or not (the newest one here is checkpoint 1 of " in alone.out
    )
    report = json.loads((await formulary(*command, "--json", **key)).out)
    assert (report["status"], report["tail_proven"]) == ("TAIL_UNPROVEN", False)
    compared = await formulary(*command, "--published", str(tmp_path / "published"), **key)
    assert (compared.code, "checkpoint 2, checkpoint-missing: " in compared.out) == (1, True), compared


async def test_the_operator_publishes_in_the_cluster_and_tells_of_a_trail_that_was_set_back(
    database: str, owner: Connection, cluster: Cluster, namespace: str
) -> None:
    path = CONFIG_MAPS.path(namespace=namespace)
    settings = OperatorSettings(database_url=database, checkpoint_seconds=0.1, verify_seconds=0)
    metrics = OperatorMetrics()
    async with connected(cluster.kubeconfig) as client:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "published", "namespace": namespace}}
        await client.create(path, body)

        async def published() -> str:
            found = await client.get(f"{path}/published")
            return str(((found or {}).get("data") or {}).get("checkpoints", ""))

        def operator(writing: Database) -> Auditing:
            events = EventRecorder(client, instance="test")
            place = ConfigMapPlace(client, events=events, namespace=namespace, name="published")
            return Auditing(settings, database=writing, metrics=metrics, config_map=place)

        async def running(until: Callable[[], Awaitable[bool]]) -> None:
            """An operator that runs until something holds: each begins without a memory."""
            writing = await Database.open(database, role=Role.WRITER, deadline=30)
            works = [asyncio.create_task(work) for work in operator(writing).works()]
            async with asyncio.timeout(60):
                for _ in itertools.count():
                    if await until():
                        break
                    await asyncio.sleep(0.05)
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            await writing.close()

        async def is_published() -> bool:
            return (await published()).startswith("1:")

        async def warned() -> list[str]:
            """What Events say of the ConfigMap; they are the last that is reported, after metric and log."""
            found = await client.get(EVENTS.path(namespace=namespace))
            events = [each for each in (found or {}).get("items", ()) if each["reason"] == "TrailBroken"]
            return [each["message"] for each in events if each["involvedObject"]["name"] == "published"]

        async def is_reported() -> bool:
            return bool(await warned())

        await running(is_published)
        assert "formulary_trace_findings 0.0" in metrics.exposition().decode()
        before = await published()
        await owner.execute("alter table trace_checkpoint disable trigger user; delete from trace_checkpoint")
        await owner.execute("alter table trace_checkpoint enable trigger user; update trace_head set checkpointed = 0")
        await running(is_reported)
        assert await published() == before
        # One Event says that checkpoint 1 is gone; a second, where a new checkpoint 1 was written, that it is another.
        assert all("checkpoint 1" in message for message in await warned())
        assert "formulary_trace_findings 0.0" not in metrics.exposition().decode()
