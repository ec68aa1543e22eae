"""Each wall around SQL of callers is needed: with it an attack is stopped, and without it alone the attack works."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from formulary_catalog.domain.analytics.answers import QueryAnswer
from formulary_catalog.errors import FormularyError, InvalidInput, NotAllowed, NotSetUp, Overloaded, RateLimited
from formulary_catalog.store.analytics.connection import Rows, run_prepared
from formulary_catalog.store.analytics.sessions import ROLE, Connection, StatementLimits
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import Rights
from support.databases import as_user
from support.insight import (
    EVERYBODY,
    LOCAL,
    NOWHERE,
    OF_THE_SHOP,
    SHARED,
    SHOP,
    Stage,
    caller,
    managed_database,
    staged,
)
from support.trail import recorded

LONG = "select pg_sleep(2.4)"
"""Longer than a statement may take. PostgreSQL lets everybody call it where no superuser migrated."""
PATIENT = StatementLimits(seconds=60)
"""For attacks that another wall than time has to stop."""


@pytest.fixture(scope="module")
async def stage(postgres: EmbeddedPostgres) -> AsyncIterator[Stage]:
    """On managed PostgreSQL, where fewer functions are out of reach."""
    async with managed_database(postgres) as dsn, staged(dsn) as filled:
        yield filled


async def _rows(stage: Stage, sql: str, *, at_most: int = 10, **walls: Any) -> list[tuple[Any, ...]]:
    found = await stage.database(**walls).query(sql, scope=OF_THE_SHOP, at_most=at_most)
    return [tuple(row) for row in found.rows]


async def _anything(connection: Connection, *, dsn: str) -> None:
    """Takes any session for a confined one."""


# 1. One statement, prepared.


async def _run_simply(connection: Connection, sql: str, *, at_most: int) -> Rows:
    await connection.execute(sql)
    return Rows(columns=["read_only"], rows=[(await connection.fetchval("show transaction_read_only"),)])


async def test_only_a_prepared_statement_cannot_end_the_transaction(stage: Stage) -> None:
    attack = "select 1; rollback; begin transaction read write"
    with pytest.raises(InvalidInput, match="multiple commands"):
        await _rows(stage, attack)
    assert await _rows(stage, attack, run=_run_simply) == [("off",)]


# 2. The role.


async def test_only_the_role_cannot_read_beside_the_views(stage: Stage) -> None:
    attack = "select count(*) from formulary.workflow_version"
    with pytest.raises(InvalidInput, match="permission denied for schema formulary"):
        await _rows(stage, attack)
    assert await _rows(stage, attack, dsn=stage.dsn, require=_anything) == [(3,)]


async def test_only_a_session_that_logged_in_as_the_role_is_used(stage: Stage) -> None:
    with pytest.raises(NotSetUp, match="log in as formulary_insight"):
        await _rows(stage, "select 1", dsn=stage.dsn)
    taken_on = f"{stage.dsn}&options=-c%20role%3Dformulary_writer"
    attack = "select set_config('role', 'none', false), current_user = session_user"
    assert await _rows(stage, attack, dsn=taken_on, require=_anything) == [("none", True)]
    with pytest.raises(InvalidInput, match="permission denied"):
        await _rows(stage, "select set_config('role', 'formulary_writer', false)")


# 3. What one statement may take.


async def test_only_the_timeout_ends_a_statement(stage: Stage) -> None:
    with pytest.raises(InvalidInput, match="takes longer than 2 s"):
        await _rows(stage, LONG)
    assert await _rows(stage, LONG, limits=StatementLimits(seconds=20)) == [("",)]
    # The server leaves a statement that lasts, too; the database ends it.
    assert await _rows(stage, "select current_setting('statement_timeout')") == [("2s",)]


async def test_only_a_transaction_that_reads_refuses_functions_that_write(stage: Stage) -> None:
    attack = "select lo_creat(-1) > 0::oid"
    with pytest.raises(InvalidInput, match="read-only transaction"):
        await _rows(stage, attack)
    assert await _rows(stage, attack, limits=StatementLimits(read_only=False)) == [(True,)]


async def test_only_work_mem_sends_big_sorts_to_files(stage: Stage) -> None:
    """The sort is bigger than files may be, and smaller than what the system gives."""
    attack = (
        f"select count(*) from (select row_number() over (order by md5((1000 * a + b)::text) || '{'x' * 100}') as n"
        " from generate_series(1, 800) as a, generate_series(1, 1000) as b) as numbered where n > 0"
    )
    with pytest.raises(InvalidInput, match="more rows than it may; narrow it with WHERE"):
        await _rows(stage, attack, limits=PATIENT)
    assert await _rows(stage, attack, limits=replace(PATIENT, work_mem="200MB")) == [(800_000,)]


async def test_only_temp_file_limit_bounds_files(stage: Stage) -> None:
    attack = "select count(*) from generate_series(1, 5000000)"
    with pytest.raises(InvalidInput, match="more rows than it may; narrow it with WHERE"):
        await _rows(stage, attack, limits=PATIENT)
    superuser = await asyncpg.connect(as_user(stage.dsn, "postgres"))
    try:
        here = f"alter role {ROLE} in database {await superuser.fetchval('select current_database()')}"
        await superuser.execute(f"{here} set temp_file_limit = -1")
        assert await _rows(stage, attack, limits=PATIENT) == [(5_000_000,)]
        await superuser.execute(f"{here} reset temp_file_limit")
    finally:
        await superuser.close()


@pytest.fixture
def unbounded(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    tmp_path.chmod(0o711)
    with EmbeddedPostgres(data_dir=tmp_path / "data", session_memory=None) as server:
        yield server


@pytest.mark.skipif(sys.platform != "linux", reason="the system bounds the memory of a process on Linux alone")
async def test_only_the_memory_of_a_session_bounds_texts_and_arrays(stage: Stage, unbounded: EmbeddedPostgres) -> None:
    attack = (
        f"select length(string_agg('{'x' * 100}', '')) from generate_series(1, 3000) as a, generate_series(1, 1000)"
    )
    with pytest.raises(InvalidInput, match="takes more memory than it may"):
        await _rows(stage, attack, limits=PATIENT)
    connection = await asyncpg.connect(unbounded.dsn(database="postgres"))
    try:
        assert (await run_prepared(connection, attack, at_most=1)).rows == [(300_000_000,)]
    finally:
        await connection.close()


async def test_only_the_niceness_lets_all_others_go_first(stage: Stage) -> None:
    async def niceness(connection: Connection) -> int:
        return int(psutil.Process(connection.get_server_pid()).nice())

    owner = await asyncpg.connect(stage.dsn)
    usual = await niceness(owner)
    await owner.close()
    last = min(usual + 5, 19)
    assert await stage.database(limits=StatementLimits(niceness=last)).read(niceness, scope=EVERYBODY) == last
    assert await stage.database(limits=StatementLimits(niceness=usual)).read(niceness, scope=EVERYBODY) == usual
    assert StatementLimits().niceness == 10


async def _run_unbounded(connection: Connection, sql: str, *, at_most: int) -> Rows:
    return Rows(columns=["n"], rows=list(map(tuple, await connection.fetch(sql))))


async def test_only_the_select_around_it_bounds_the_rows(stage: Stage) -> None:
    attack = "select * from generate_series(1, 5000) as n"
    assert len(await _rows(stage, attack)) == 11
    assert len(await _rows(stage, attack, run=_run_unbounded)) == 5000


# 4. The tenants of the caller.


async def test_only_the_scope_hides_rows_of_others(stage: Stage) -> None:
    attack = "select workflow from insight.catalog where namespace = 'bank'"
    assert await _rows(stage, attack) == []
    found = await stage.database().query(attack, scope=replace(OF_THE_SHOP, namespaces=None), at_most=10)
    assert found.rows == [("bank/ledger-unlock",)]


# 5. The parser.


async def _ask(stage: Stage, sql: str, *, max_rows: int = 200, by: Any = LOCAL, **walls: Any) -> QueryAnswer:
    return await stage.service(**walls).execute_query(sql, context=NOWHERE, caller=by, max_rows=max_rows)


async def test_only_the_parser_refuses_tables_of_the_system_and_says_what_to_read(stage: Stage) -> None:
    attack = "select relname from pg_catalog.pg_class where relname = 'invocation'"
    with pytest.raises(InvalidInput, match="only tables of insight are readable: catalog, versions"):
        await _ask(stage, attack)
    assert [*(await _ask(stage, attack, check=str)).data[0].values()] == ["invocation"]


# 6. Few at a time.


async def _all(*calls: Awaitable[Any]) -> list[type[Exception]]:
    return [type(each) for each in await asyncio.gather(*calls, return_exceptions=True) if isinstance(each, Exception)]


async def test_only_the_one_place_keeps_statements_from_using_up_the_database(stage: Stage) -> None:
    one, two = stage.database(), stage.database(limits=StatementLimits(connections=2))
    slow = "select pg_sleep(1.5)"
    assert await _all(*(one.query(slow, scope=EVERYBODY, at_most=1) for _ in range(2))) == [Overloaded]
    assert await _all(*(two.query(slow, scope=EVERYBODY, at_most=1) for _ in range(2))) == []


async def test_only_the_rate_ends_the_statements_of_one_caller(stage: Stage) -> None:
    few, many = stage.service(per_minute=2), stage.service(per_minute=10_000)
    for _ in range(2):
        await few.execute_query("select 1", context=NOWHERE, caller=LOCAL)
    with pytest.raises(RateLimited, match="local has run 2 statements within a minute"):
        await few.execute_query("select 1", context=NOWHERE, caller=LOCAL)
    for _ in range(5):
        await many.execute_query("select 1", context=NOWHERE, caller=LOCAL)


# 7. What leaves.


async def test_only_the_bound_on_bytes_keeps_an_answer_readable(stage: Stage) -> None:
    attack = "select n, md5(n::text) from generate_series(1, 1000) as n"
    answer = await _ask(stage, attack, max_rows=1000)
    assert answer.truncated
    assert len(answer.model_dump_json()) <= 8192
    assert "of 1000 rows fit" in answer.notes[0]
    whole = await stage.service().execute_query(attack, context=NOWHERE, caller=LOCAL, max_rows=1000, browsing=True)
    assert (whole.row_count, whole.truncated) == (1000, False)


async def test_cells_and_names_of_columns_hold_no_control_characters(stage: Stage) -> None:
    answer = await _ask(stage, "select chr(27) || '[31m' || chr(8238) || 'red' as \"a\x1b[0m\", E'a\\u200bb'")
    assert not [character for character in answer.model_dump_json() if character in "\x1b\u202e\u200b"]
    assert next(iter(answer.data[0].values())) == "\ufffd[31m\ufffdred"


# 8. A right of its own, and the trail.


async def test_only_the_right_keeps_others_out(stage: Stage) -> None:
    mallory = caller(Rights(see={SHARED, SHOP}, use={SHOP}, read={SHOP}), name="mallory")
    with pytest.raises(NotAllowed, match=r"mallory may not get analytics\.formulary\.dev"):
        await _ask(stage, "select 1", by=mallory)
    assert (await _ask(stage, "select 1", by=mallory, right=None)).row_count == 1


async def test_every_statement_is_in_the_trail_with_its_rows_and_time_or_with_why_it_was_refused(stage: Stage) -> None:
    await _ask(stage, "select workflow from insight.catalog where name <> 'told'")
    for refused in ("delete from insight.catalog", "select told from insight.catalog"):
        with pytest.raises(FormularyError):
            await _ask(stage, refused)
    owner = await asyncpg.connect(stage.dsn)
    try:
        told = [event for event in await recorded(owner) if event["kind"] == "read.query"][-3:]
    finally:
        await owner.close()
    assert [event["arguments"]["sql"] for event in told] == [
        "select workflow from insight.catalog where name <> 'told'",
        "delete from insight.catalog",
        "select told from insight.catalog",
    ]
    assert told[0]["result"] == {"rows": 3, "truncated": False}
    assert all(event["duration_ms"] > 0 for event in told)
    assert [event["outcome"] for event in told] == ["ok", "InvalidInput", "InvalidInput"]
