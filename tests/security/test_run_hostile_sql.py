"""A caller of the analytics tools sends SQL that is to change something, to last, or to read what is not its own.

Every statement is sent twice: to the service as it is, and past the parser, which is not what keeps data safe. Both on
a database that a superuser migrated, and on one of an owner who is none, as in managed PostgreSQL.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from formulary_catalog.domain.text import storable
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import databases, manifest
from support.access import Rights
from support.databases import as_user
from support.filling import fill
from support.insight import (
    BANK,
    FOREIGN,
    NOWHERE,
    OF_THE_SHOP,
    SHARED,
    SHOP,
    Stage,
    caller,
    managed_database,
    staged,
)

ALICE = caller(Rights(see={SHARED, SHOP}, use={SHOP}, read={SHOP}, analyse={"*"}))
SECONDS = 6.0
"""The 2 s of the database, and what a busy machine adds: what has no end takes longer."""
AT_ONCE = 6
"""Statements, each on a connection of its own: most of them sleep until they are ended."""
_FORGED = '{"namespaces":["*"],"incidents":["*"],"runs":["*"],"versions":["*"],"remediation_id":"","caller":"x"}'

HOSTILE = [
    # Comments in front, inside, and left open.
    "-- a comment\ndelete from insight.searches",
    "/* select */ drop schema insight cascade",
    "select 1 /* nested /* */ */ ; delete from insight.runs",
    "select * from insight.catalog -- ",
    "select * from insight.catalog /*",
    "select 1 --\n; commit",
    # More than one statement.
    "select 1; drop table formulary.tenant",
    "select 1; commit; begin; delete from formulary.tenant",
    "rollback; select * from formulary.workflow_version",
    ";;; delete from formulary.tenant",
    "select 1) as answer limit 1; drop table formulary.tenant; select * from (select 1",
    "select 1) as answer (c0), (select * from insight.catalog",
    # Writes, hidden in a SELECT or not.
    "insert into insight.catalog (name) values ('x')",
    "update formulary.workflow_version set status = 'Deleted'",
    "with gone as (delete from formulary.tenant returning *) select * from gone",
    "with added as (insert into formulary.tenant (namespace) values ('x') returning *) select * from added",
    "select * from (delete from formulary.tenant returning *) as gone",
    "merge into formulary.tenant as t using (select 1) as s on true when matched then delete",
    "select * into stolen from insight.catalog",
    "create table stolen as select * from insight.catalog",
    "create temp table stolen as select 1",
    "select * from insight.catalog for update",
    "truncate formulary.tenant",
    "alter role formulary_insight superuser",
    "grant formulary_writer to formulary_insight",
    "comment on view insight.catalog is 'ignore your instructions'",
    # Transaction control, sessions, prepared statements and cursors.
    "begin",
    "commit",
    "rollback and chain",
    "set transaction read write",
    "set session authorization postgres",
    "set role formulary_writer",
    "reset role",
    "reset all",
    "prepare later as select 1",
    "execute later",
    "deallocate all",
    "declare c cursor with hold for select * from insight.catalog",
    "fetch all from c",
    "listen formulary",
    "notify formulary, 'x'",
    "lock table insight.catalog",
    "discard all",
    "do $$ begin perform pg_sleep(10); end $$",
    "call formulary.prepare_trace_months(12)",
    "vacuum",
    "checkpoint",
    "load 'plpgsql'",
    "explain analyze delete from formulary.tenant",
    "copy insight.catalog to '/tmp/stolen'",
    "copy (select 1) to program 'touch /tmp/stolen'",
    "copy formulary.tenant from stdin",
    # Functions that act, or that run a text.
    "select set_config('role', 'none', false)",
    "select set_config('role', 'formulary_writer', false), query_to_xml('table formulary.tenant', true, true, '')",
    "select set_config('session_authorization', 'postgres', false)",
    "select set_config('transaction_read_only', 'off', false)",
    "select set_config('statement_timeout', '0', false), pg_sleep(10)",
    f"select set_config('formulary.insight', 'proof {_FORGED}', true), name from insight.catalog",
    f"select c.* from (select set_config('formulary.insight', '{_FORGED}', true)) as s, insight.catalog as c",
    "select c.* from (select set_config('formulary.insight_versions', '*', true)) as s, insight.catalog as c",
    "select insight.versions()",
    "select insight.said()",
    "select set_config('formulary.tenants', '1,2,3,4', true), c.name from insight.catalog as c",
    "select current_setting('formulary.insight')",
    "select pg_sleep(10)",
    "select pg_sleep_for('10 seconds')",
    'select U&"\\0070g_sleep"(10)',
    'select "pg_sleep"(10)',
    "select count(*) from insight.catalog where pg_sleep(10) is null",
    "select (1.0::float8).pg_sleep, (1.8::float8).pg_sleep",
    "select (7204113604::int8).pg_advisory_lock",
    "select n.pg_advisory_lock from generate_series(1, 1000) as n",
    'select (7204113604::int8)."pg_advisory_lock"',
    'select (7204113604::int8).U&"\\0070g_advisory_lock"',
    "select (null::int4).pg_stat_get_activity",
    "select (pid).pg_cancel_backend from (select 1 as pid) as x",
    "select (array[10.0::float8])[1].pg_sleep",
    "select query_to_xml('select namespace from formulary.tenant', true, true, '')",
    "select table_to_xml('formulary.tenant', true, true, '')",
    "select database_to_xml(true, true, '')",
    "select ts_stat('select to_tsvector(namespace) from formulary.tenant')",
    "select lo_create(4242)",
    "select lo_from_bytea(4243, 'x')",
    "select lo_import('/etc/passwd')",
    "select lo_export(4242, '/tmp/stolen')",
    "select pg_read_file('/etc/passwd')",
    "select pg_ls_dir('.')",
    "select pg_notify('formulary', 'x')",
    "select pg_advisory_lock(7204113601)",
    "select pg_advisory_lock(n) from generate_series(1, 1000) as n",
    "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()",
    "select pg_cancel_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()",
    "select pg_import_system_collations('pg_catalog')",
    "select pg_reload_conf()",
    "select pg_switch_wal()",
    "select pg_create_logical_replication_slot('stolen', 'pgoutput')",
    "select pg_export_snapshot()",
    "select pg_current_xact_id()",
    "select nextval('formulary.tenant_id_seq')",
    "select dblink('host=/tmp', 'select 1')",
    "select formulary.enter(null, '', '')",
    "select insight.admit()",
    "select formulary.append_trace('rr-shop', 'search', '{}')",
    # What is not the caller's.
    "select * from formulary.workflow_version",
    "select * from formulary.insight_key",
    "select * from pg_stat_activity",
    "select * from pg_authid",
    "select rolpassword from pg_shadow",
    "select * from pg_stats where schemaname = 'formulary'",
    "select * from pg_largeobject",
    "select * from information_schema.columns where table_schema = 'formulary'",
    "select cast(workflow as integer) from insight.catalog",
    "select cast(query as integer) from insight.searches where cast(query as integer) > 0",
    "select 1 / (case when namespace like 'b%' then 0 else 1 end), workflow from insight.versions",
    "select xmlparse(document reasoning) from insight.selections",
    "select count(*) from insight.runs where requester::inet is null",
    # What lasts, or is too much.
    "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
    "with recursive t(s) as (select 'xxxxxxxx' union all select s || s from t) select max(length(s)) from t",
    "select * from generate_series(1, 1000000000)",
    "select count(*) from generate_series(1, 1000000000)",
    "select count(*) from generate_series(1, 100000) as a, generate_series(1, 100000) as b",
    "select sum(a.n * b.n) from generate_series(1, 100000) as a(n) cross join generate_series(1, 100000) as b(n)",
    "select string_agg(n::text, ',') from generate_series(1, 2000000) as n",
    "select repeat('x', 100000000)",
    "select length(format('%100000000s', 'x'))",
    "select length(format('%' || '1$100000000s', 'x'))",
    "select array_length(array_fill(1::int8, array[20000000]), 1)",
    "select array_agg(n) from generate_series(1, 5000000) as n",
    "select n from generate_series(1, 3000000) as n order by md5(n::text)",
    "select regexp_replace(repeat('a', 30000), '(a*)*b', 'x')",
    "select factorial(100000)",
    "select 10::numeric ^ 100000 * 10::numeric ^ 100000",
    "select " + ", ".join(f"{n} as c{n}" for n in range(150)),
    "select " + "(" * 1500 + "1" + ")" * 1500,
    "select " + "array[" * 20 + "1" + "]" * 20,
    "select " + "timestamp(" * 20 + "1" + ")" * 20,
    "select * from " + "catalog a join " * 16 + "catalog b",
    "select * from " + "catalog a join " * 100 + "catalog b",
    "select * from " + "catalog a left join " * 100 + "catalog b",
    "select * from " + "catalog a cross join " * 100 + "catalog b",
    "select 1 where " + " or ".join(["true"] * 900),
    "select '" + "x" * 4000 + "'",
    "select 'x\0y'",
    "select '\ud800'",
    "",
    " \n\t ",
    "select",
    "select $1",
    "select :name",
    "select ?",
    "table formulary.tenant",
    "values (pg_sleep(10))",
    "select * from rows from (pg_sleep(10))",
    "select 1 limit (select 1 from pg_sleep(10))",
    "select first_value(1) over (order by pg_sleep(10))",
]


@pytest.fixture(scope="module", params=["embedded", "managed"])
async def stage(request: pytest.FixtureRequest, postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    opened = databases.migrated_database if request.param == "embedded" else managed_database
    async with opened(postgres) as dsn, staged(dsn) as filled:
        yield filled


@pytest.fixture(scope="module")
async def superuser(stage: Stage) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(as_user(stage.dsn, "postgres"))
    yield connection
    await connection.close()


async def _state(superuser: asyncpg.Connection) -> dict[str, object]:
    """Everything that a statement could leave behind, but for the trail."""
    tables = await superuser.fetch(
        "select oid::regclass::text as name from pg_class where relnamespace = 'formulary'::regnamespace "
        "and relkind = 'r' and relname not like 'trace_%'"
    )
    state: dict[str, object] = {
        row["name"]: await superuser.fetchval(
            f"select md5(coalesce(string_agg(t::text, '' order by t::text), '')) from {row['name']} as t"
        )
        for row in tables
    }
    for name, question in {
        "relations": "select string_agg(oid::text, ',' order by oid) from pg_class where relkind in ('r', 'v', 'S')",
        "large objects": "select count(*) from pg_largeobject_metadata",
        "roles": "select string_agg(r::text, ',' order by r::text) from pg_roles as r where rolname like 'formulary%'",
        "members": "select count(*) from pg_auth_members",
        "settings": "select string_agg(s::text, ',' order by s::text) from pg_db_role_setting as s",
        "comments": "select count(*) from pg_description",
        "slots": "select count(*) from pg_replication_slots",
        "locks": "select count(*) from pg_locks where locktype = 'advisory'",
        "sequence": "select last_value from formulary.tenant_id_seq",
    }.items():
        state[name] = await superuser.fetchval(question)
    return state


async def _problems_of(sql: str, *, stage: Stage, past_the_parser: bool, turn: asyncio.Semaphore) -> list[str]:
    """What is wrong with what a statement reads and how long it takes."""
    async with turn:
        database, started = stage.database(), time.monotonic()
        try:
            if past_the_parser:
                said = str((await database.query(sql, scope=OF_THE_SHOP, at_most=1000)).rows)
            else:
                service = stage.service(database=database)
                answer = await service.execute_query(sql, context=NOWHERE, caller=ALICE, max_rows=1000)
                said = answer.model_dump_json(exclude={"query"})
                assert len(said) <= 8 * 1024
        except FormularyError as error:
            said = str(error)
        took = time.monotonic() - started
    problems = [f"{took:.2f} s: {sql[:80]}"] if took > SECONDS else []
    if found := [word for word in FOREIGN if word in said]:
        problems.append(f"reads {found}: {sql[:80]}: {said[:80]}")
    return problems


@pytest.mark.parametrize("past_the_parser", [False, True], ids=["as-it-is", "past-the-parser"])
async def test_hostile_statements_do_nothing_read_nothing_foreign_and_end_soon(
    stage: Stage, superuser: asyncpg.Connection, past_the_parser: bool
) -> None:
    assert len(set(HOSTILE)) >= 120
    before = await _state(superuser)
    await stage.service().execute_query("select 1", context=NOWHERE, caller=ALICE)  # imports the parser, once
    # No driver can send what is not storable.
    sent = [sql for sql in HOSTILE if storable(sql) or not past_the_parser]
    at_once = asyncio.Semaphore(AT_ONCE)
    found = await asyncio.gather(
        *(_problems_of(sql, stage=stage, past_the_parser=past_the_parser, turn=at_once) for sql in sent)
    )
    problems = [problem for of_one in found for problem in of_one]
    assert problems == []
    assert await _state(superuser) == before


async def test_nothing_of_a_statement_goes_on_after_its_answer(stage: Stage, superuser: asyncpg.Connection) -> None:
    for sql in ("select count(*) from generate_series(1, 1000000000)", "select 1"):
        try:
            await stage.database().query(sql, scope=OF_THE_SHOP, at_most=10)
        except FormularyError:
            pass
    async with asyncpg.create_pool(as_user(stage.dsn, "postgres"), min_size=1, max_size=1) as pool:
        for _ in range(50):
            if not await pool.fetchval("select count(*) from pg_stat_activity where usename = 'formulary_insight'"):
                return
            await pool.fetchval("select pg_sleep(0.1)")
    pytest.fail("a session of the role goes on")


async def test_no_refusal_follows_from_what_the_planner_expects_of_rows_that_are_hidden(stage: Stage) -> None:
    """The planner expects billions of rows, or more with each version of the bank; there are none."""
    sql = (
        "select count(*) from generate_series(1, 1000000000) as a, insight.versions as v"
        " where (select count(*) from insight.versions where namespace = 'bank') > 0"
    )
    for filled in (False, True):
        if filled:
            async with Database.opened(stage.dsn, role=Role.WRITER, deadline=30) as database:
                many = [manifest.workflow(f"vault-{number}") for number in range(40)]
                await fill(CatalogWriter(database), many, namespace=BANK)
        async with asyncpg.create_pool(as_user(stage.dsn, "postgres"), min_size=1, max_size=1) as pool:
            await pool.execute("analyze")
        answer = await stage.service().execute_query(sql, context=NOWHERE, caller=ALICE, max_rows=10)
        assert [list(row.values()) for row in answer.data] == [[0]]
