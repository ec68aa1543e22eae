"""Roles of the database: what they own, what they are refused, and which functions they may call."""

from typing import Any

import asyncpg
import pytest

from formulary_catalog.store.database.connection import Database, Role

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_owns_nothing_and_has_no_power_over_the_server(owner: Any, role: Role) -> None:
    powers = await owner.fetchrow(
        "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication from pg_roles where rolname = $1",
        role,
    )
    assert list(powers) == [False] * 5
    owned = await owner.fetchval(
        "select count(*) from pg_shdepend where refobjid = $1::regrole and deptype = 'o'", role
    )
    assert owned == 0
    assert await owner.fetch("select from pg_auth_members where member = $1::regrole", role) == []


@pytest.mark.parametrize(
    "statement",
    [
        "update workflow_version set status = 'Active'",
        "delete from workflow_version",
        "truncate workflow_search",
        "insert into tenant (namespace) values ('x')",
        "update request_context set context = '{}'",
        "delete from audit_event",
        "update audit_event set outcome = 'ok'",
        "select * from audit_event",
        "delete from refused_workflow",
        "update resync set differed = 0",
        "delete from halt",
        "delete from ended_session",
        "update ended_session set over_at = now()",
        "update invocation set halted = ''",
        "insert into halt (namespace, contract, reason, by, trace_id) values ('', '', 'x', 'me', 'tr_1')",
        "select formulary.begin_halt('', 'formulary/stop', 'x', 'me', 'tr_1')",
        "select formulary.end_halted('', '', 'x')",
        "select formulary.append_trace('tr_1', 'halt.begun', '{\"caller\": \"me\"}')",
        "select formulary.append_trace('tr_1', 'halt.lifted', '{\"caller\": \"me\"}')",
        "select formulary.begin_checkpoint(1)",
        "select formulary.prepare_trace_months(1)",
        "select * from embedding",
        "delete from alembic_version",
        "alter table workflow_version disable row level security",
        "drop policy server on workflow_version",
        "set row_security = off; select * from workflow_version",
        "set role formulary_writer; select * from workflow_version",
        "create table formulary.mine (id integer)",
    ],
)
async def test_the_servers_role_is_refused_what_it_must_not_do(
    tenants: dict[str, str], database: str, statement: str
) -> None:
    connection = await asyncpg.connect(database, user="formulary_server")
    try:
        await connection.execute("set search_path = formulary, public")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "statement", ["select * from audit_event", "update audit_event set outcome = ''", "delete from audit_event"]
)
async def test_the_writer_can_neither_read_nor_change_the_audit_trail(
    writing: Database, database: str, statement: str
) -> None:
    connection = await asyncpg.connect(database, user="formulary_writer")
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement.replace("audit_event", "formulary.audit_event"))
    finally:
        await connection.close()


async def test_what_runs_as_the_owner_may_be_called_only_by_those_who_need_it(owner: Any) -> None:
    rows = await owner.fetch(
        """
        select proname::text as name, proconfig,
               array(select rolname::text from pg_roles
                     where rolname in ('formulary_server', 'formulary_writer')
                       and has_function_privilege(rolname, pg_proc.oid, 'EXECUTE') order by 1) as callers
        from pg_proc where pronamespace = 'formulary'::regnamespace and prosecdef
        """
    )
    server, writer = ["formulary_server"], ["formulary_writer"]
    assert {row["name"]: row["callers"] for row in rows} == {
        "add_notice": server + writer,
        "append_sealed": server + writer,
        "append_trace": server + writer,
        "author_known": server,
        "begin_checkpoint": writer,
        "begin_halt": server + writer,
        "checkpoints_from": writer,
        "end_checkpoint": writer,
        "demand_for": server,
        "end_halted": server + writer,
        "end_session": server,
        "ended_traces": writer,
        "holders": server,
        "known_namespaces": server,
        "lift_halt": server + writer,
        "may_append": [],
        "namespaces_of_trace": server,
        "namespaces_with_rules": server,
        "namespaces_with_workflows": server,
        "prepare_trace_months": writer,
        "recent_failures": server + writer,
        "record_hold": [],
        "search_recorded": server + writer,
        "searched_target": server + writer,
        "sealed_namespaces": server,
        "search_returned": server,
        "search_supports": server,
        "searches_by_mode": server,
        "selection_of": server + writer,
        "starts_under_way": server + writer,
        "tenants_of": server + writer,
        "trace_marks": server + writer,
        "trace_of_search": server,
        "traces_in": server,
        "unanswered_queries": server,
        "use_of": server,
        "uses_of_workflows": server,
        "weak_queries": server,
    }
    assert {tuple(row["proconfig"]) for row in rows} == {("search_path=formulary, pg_temp",)}
