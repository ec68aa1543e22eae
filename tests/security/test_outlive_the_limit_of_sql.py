"""A caller of the analytics tools sends SQL that PostgreSQL does not end: one that looks at no interrupt.

Neither its timeout nor a cancellation nor a lost client ends such a statement, so no limit may rely on its end.
"""

import asyncio
import math
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from formulary_catalog.errors import InvalidInput, NotSetUp, Overloaded
from formulary_catalog.runtime.checks import checks
from formulary_catalog.settings import Settings
from formulary_catalog.store.analytics.connection import InsightDatabase
from formulary_catalog.store.analytics.sessions import LOG_SETTINGS, ROLE, SESSIONS, StatementLimits, session_problems
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import databases
from support.databases import as_user
from support.insight import OF_THE_SHOP, Stage, staged
from support.manifest import text, workflow
from support.process import formulary_up
from support.waiting import wait_until


def stubborn(elements: int) -> str:
    """Compares each element of one array with each of another in one call."""
    return (
        f"select a && b from (select array_agg(n) as a from generate_series(1, {elements}) as n) as t,"
        f" (select array_agg(-n) as b from generate_series(1, {elements}) as n) as u"
    )


SECONDS = 6.0
"""The 2 s of a statement, and what a busy machine adds."""


@pytest.fixture(scope="module")
async def lasting(superuser: asyncpg.Connection) -> str:
    """A stubborn statement of some 5 s on this machine."""
    few, least = 4_000, math.inf
    for _ in range(5):  # the quickest: other work must not make it too short
        started = time.monotonic()
        await superuser.fetch(stubborn(few))
        least = min(least, time.monotonic() - started)
    return stubborn(round(few * math.sqrt(5 / least)))


@pytest.fixture(scope="module")
async def stage(postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    async with databases.migrated_database(postgres) as dsn, staged(dsn) as filled:
        yield filled


@pytest.fixture(scope="module")
async def superuser(stage: Stage) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(stage.dsn)
    yield connection
    await connection.close()


async def _sessions(superuser: asyncpg.Connection) -> int:
    return int(await superuser.fetchval("select count(*) from pg_stat_activity where usename = $1", ROLE))


async def _all_gone(superuser: asyncpg.Connection) -> None:
    for _ in range(600):
        if not await _sessions(superuser):
            return
        await superuser.fetchval("select pg_sleep(0.1)")
    pytest.fail("a session of the role goes on")


async def test_a_statement_keeps_its_place_until_its_backend_has_gone(
    stage: Stage, superuser: asyncpg.Connection, lasting: str
) -> None:
    database = stage.database()
    started = time.monotonic()
    with pytest.raises(InvalidInput, match="takes longer than 2 s"):
        await database.query(lasting, scope=OF_THE_SHOP, at_most=1)
    assert time.monotonic() - started < SECONDS
    refusals, found = [], None
    while found is None:
        assert await _sessions(superuser) <= 1
        try:
            found = await database.query("select 1", scope=OF_THE_SHOP, at_most=1)
        except Overloaded as error:
            refusals.append(str(error))
    assert found.rows == [(1,)]
    assert set(refusals) == {"a statement of an earlier caller is still being ended; retry in a few seconds"}
    await _all_gone(superuser)


async def test_a_caller_who_leaves_does_not_free_the_place(
    stage: Stage, superuser: asyncpg.Connection, lasting: str
) -> None:
    database = stage.database(limits=StatementLimits(seconds=30))
    asking = asyncio.create_task(database.query(lasting, scope=OF_THE_SHOP, at_most=1))
    for _ in range(100):
        if await _sessions(superuser):
            break
        await superuser.fetchval("select pg_sleep(0.1)")
    await superuser.fetchval("select pg_sleep(0.5)")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(Overloaded, match="still being ended"):
        await database.query("select 1", scope=OF_THE_SHOP, at_most=1)
    assert await _sessions(superuser) == 1
    await _all_gone(superuser)


async def test_a_database_that_dies_under_a_statement_frees_its_place(data_dirs: Path) -> None:
    with EmbeddedPostgres(data_dir=data_dirs / "dying") as server:
        await asyncio.to_thread(migrate, server.dsn())
        async with Database.opened(server.dsn(), role=Role.SERVER, deadline=30) as catalog:
            database = InsightDatabase(server.dsn(user=ROLE), catalog=catalog)
            with pytest.raises(InvalidInput, match="takes longer than 2 s"):
                await database.query(stubborn(200_000), scope=OF_THE_SHOP, at_most=1)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            assert (await database.query("select 1", scope=OF_THE_SHOP, at_most=1)).rows == [(1,)]


async def test_the_system_finds_a_database_host_that_has_vanished(stage: Stage, superuser: asyncpg.Connection) -> None:
    """A host that vanishes closes no socket, and a place waits for that."""
    async with _reached_over_tcp(stage.insight_dsn) as dsn:

        async def options(connection: asyncpg.Connection) -> list[int]:
            transport: asyncio.Transport = getattr(connection, "_transport")  # noqa: B009  # it has no public name
            used = transport.get_extra_info("socket")
            return [
                used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                *(
                    used.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                ),
                used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            ]

        assert await stage.database(dsn=dsn).read(options, scope=OF_THE_SHOP) == [1, 30, 10, 3, 60_000]
        await _all_gone(superuser)


@asynccontextmanager
async def _reached_over_tcp(dsn: str) -> AsyncIterator[str]:
    """The address of the database behind a port of loopback."""
    address = urlsplit(dsn)
    (host,), (port,) = (parse_qs(address.query)[name] for name in ("host", "port"))

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65536):
            writer.write(part)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        its_reader, its_writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        await asyncio.gather(pass_on(reader, its_writer), pass_on(its_reader, writer))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as relay:
        listening = relay.sockets[0].getsockname()[1]
        yield f"postgresql://{ROLE}@127.0.0.1:{listening}{address.path}?sslmode=disable"


async def test_all_servers_together_have_few_sessions(stage: Stage, superuser: asyncpg.Connection) -> None:
    others = [await asyncpg.connect(stage.insight_dsn) for _ in range(SESSIONS)]
    try:
        with pytest.raises(asyncpg.TooManyConnectionsError):
            await asyncpg.connect(stage.insight_dsn)
        with pytest.raises(Overloaded, match="other statements are running; retry in a few seconds"):
            await stage.database().query("select 1", scope=OF_THE_SHOP, at_most=1)
        waiting = asyncio.create_task(stage.database().query("select 1", scope=OF_THE_SHOP, at_most=1))
        await others.pop().close()
        assert (await waiting).rows == [(1,)]
    finally:
        for connection in others:
            await connection.close()
    await _all_gone(superuser)


async def test_a_role_without_bounds_is_reported_with_what_sets_them(
    stage: Stage, superuser: asyncpg.Connection
) -> None:
    assert await session_problems(stage.parts.database) == []
    analytics = Settings(database_url=stage.dsn, analytics_database_url=stage.insight_dsn)
    await superuser.execute(f"alter role {ROLE} connection limit {SESSIONS + 1}")
    await superuser.execute(f"alter role {ROLE} reset log_min_error_statement")
    try:
        limit, log = await session_problems(stage.parts.database)
        (check,) = [each for each in await checks(analytics, url="http://127.0.0.1:9") if each.name == "analytics"]
    finally:
        await superuser.execute(f"alter role {ROLE} connection limit {SESSIONS}")
        await superuser.execute(f"alter role {ROLE} set log_min_error_statement = panic")
    assert limit == (
        f"{ROLE} has a connection limit of {SESSIONS + 1}, and not 1 to {SESSIONS}; run "
        f"`alter role {ROLE} connection limit {SESSIONS}` as an administrator"
    )
    assert f"run `alter role {ROLE} set log_min_error_statement = panic` as an administrator" in log
    assert check.way_out == f"{limit}; {log}"


async def test_all_that_the_log_needs_is_in_one_message(stage: Stage, superuser: asyncpg.Connection) -> None:
    await superuser.execute(f"alter role {ROLE} set log_statement = 'all'")
    await superuser.execute(f"alter role {ROLE} reset track_activities")
    try:
        (problem,) = await session_problems(stage.parts.database)
        for setting in LOG_SETTINGS:
            await superuser.execute(f"alter role {ROLE} reset {setting.split()[0]}")
        (all_of_them,) = await session_problems(stage.parts.database)
    finally:
        for setting in LOG_SETTINGS:
            await superuser.execute(f"alter role {ROLE} set {setting}")
    assert problem == (
        f"PostgreSQL may log the statements of callers; run `alter role {ROLE} set log_statement = none; "
        f"alter role {ROLE} set track_activities = off` as an administrator"
    )
    assert all(f"alter role {ROLE} set {setting}" in all_of_them for setting in LOG_SETTINGS)


@pytest.mark.parametrize("limit", [-1, 0, SESSIONS + 1])
async def test_a_role_whose_sessions_are_not_bounded_answers_no_caller(
    stage: Stage, superuser: asyncpg.Connection, limit: int
) -> None:
    await superuser.execute(f"alter role {ROLE} connection limit {limit}")
    try:
        (problem,) = await session_problems(stage.parts.database)
        with pytest.raises(NotSetUp if limit else Overloaded) as refused:
            await stage.database().query("select 1", scope=OF_THE_SHOP, at_most=1)
    finally:
        await superuser.execute(f"alter role {ROLE} connection limit {SESSIONS}")
    assert f"has a connection limit of {limit}, and not 1 to {SESSIONS}" in problem
    if limit:
        assert str(refused.value).startswith(f"analytics is not set up: {ROLE} has a connection limit of {limit},")
    assert (await stage.database().query("select 1", scope=OF_THE_SHOP, at_most=1)).rows == [(1,)]


def test_the_migration_sets_the_bounds_that_are_checked() -> None:
    revision = import_module("formulary_catalog.store.migrations.versions.0040_analytics")
    assert (revision.ROLE, revision.SESSIONS, revision.SETTINGS) == (ROLE, SESSIONS, LOG_SETTINGS)


async def test_up_ends_within_5_s_while_such_a_statement_runs(data_dirs: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text(workflow("a")))
    data_dir = data_dirs / "stubborn"
    with formulary_up(data_dir=data_dir, manifests=[tmp_path]) as up:
        address = EmbeddedPostgres(data_dir=data_dir).dsn(user=ROLE)
        attacker = await asyncpg.connect(address)
        running = asyncio.create_task(attacker.execute(stubborn(200_000)))
        observer = await asyncpg.connect(as_user(address, "postgres"))
        await observer.fetchval("select pg_sleep(1)")
        assert await _sessions(observer) == 1
        await observer.close()
        started = time.monotonic()
        up.process.terminate()
        await asyncio.to_thread(up.process.wait, 60)
        assert time.monotonic() - started < 5
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await running
    with EmbeddedPostgres(data_dir=data_dir) as recovered:
        owner = await asyncpg.connect(recovered.dsn())
        assert await owner.fetchval("select count(*) from formulary.workflow_version") == 1
        await owner.close()


SECRET = "marked-4711"
FAILING = (f"select '{SECRET}'::int", f'select nothing as "{SECRET}" from insight.runs', f"select '{SECRET}")


def _lines_after(log: Path, length: int, *, until: str) -> str:
    wait_until(lambda: until in log.read_text()[length:], what=f"{until!r} in the log")
    return log.read_text()[length:]


async def test_no_statement_of_a_caller_is_in_the_log_of_a_server_that_logs_all(
    data_dirs: Path, stage: Stage, superuser: asyncpg.Connection
) -> None:
    log = data_dirs / "shared" / "postgres.log"
    length = len(log.read_text())
    here = f"alter database {await superuser.fetchval('select current_database()')}"
    as_elsewhere = {
        "log_min_messages": "warning",
        "log_min_error_statement": "error",
        "log_statement": "'all'",
        "log_min_duration_statement": "0",
    }
    for name, value in as_elsewhere.items():
        await superuser.execute(f"{here} set {name} = {value}")
    try:
        for sql in FAILING:
            with pytest.raises(InvalidInput):
                await stage.database().query(sql, scope=OF_THE_SHOP, at_most=1)
        await stage.database().query(f"select '{SECRET}'", scope=OF_THE_SHOP, at_most=1)
        await _leave_in_the_middle(stage)
        owner = await asyncpg.connect(stage.dsn)
        with pytest.raises(asyncpg.PostgresError):
            await owner.execute("select 'of the owner'::int")
        await owner.close()
    finally:
        for name in as_elsewhere:
            await superuser.execute(f"{here} reset {name}")
    written = _lines_after(log, length, until="STATEMENT:  select 'of the owner'::int")
    assert SECRET not in written


async def _leave_in_the_middle(stage: Stage) -> None:
    """Read nothing of a long answer, and leave."""
    connection = await asyncpg.connect(stage.insight_dsn)
    sql = f"select repeat('{SECRET}', 1000) from generate_series(1, 100000)"
    asking = asyncio.create_task(connection.execute(sql))
    await asyncio.sleep(0)  # it is sent
    connection._transport.pause_reading()  # type: ignore[attr-defined]  # no public way
    await stage.parts.database.fetch("select pg_sleep(0.3)")
    connection.terminate()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError, asyncio.CancelledError)):
        await asking


async def test_no_statement_of_a_caller_who_leaves_is_in_the_log_of_up(
    data_dirs: Path, stage: Stage, superuser: asyncpg.Connection
) -> None:
    """Without what the migration sets for the role, the server's own settings keep it out."""
    log = data_dirs / "shared" / "postgres.log"
    length = len(log.read_text())
    await superuser.execute(f"alter role {ROLE} reset log_min_error_statement")
    try:
        await _leave_in_the_middle(stage)
        written = _lines_after(log, length, until="client")
    finally:
        await superuser.execute(f"alter role {ROLE} set log_min_error_statement = panic")
    assert SECRET not in written
