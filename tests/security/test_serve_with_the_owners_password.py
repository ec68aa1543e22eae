"""Somebody who takes over a server takes its database login too: it must not be one that can lift what confines it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.errors import PrivilegedLogin
from formulary_catalog.runtime.checks import checks
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.database.owner import require_plain_login
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import charts
from support.commands import formulary
from support.operator_process import Daemon, server
from support.waiting import wait_until

GRANTS = [
    ("alter role formulary_server superuser", "alter role formulary_server nosuperuser", "is a superuser"),
    ("alter role formulary_server bypassrls", "alter role formulary_server nobypassrls", "bypasses row-level security"),
    (
        "alter table formulary.workflow_version owner to formulary_server",
        "alter table formulary.workflow_version owner to formulary",
        "owns table ",
    ),
    ("create schema apart authorization formulary_server", "drop schema apart", "owns schema apart"),
    (
        "alter database formulary owner to formulary_server",
        "alter database formulary owner to formulary",
        "owns the database",
    ),
    (
        "grant postgres to formulary_server",
        "revoke postgres from formulary_server",
        "may act as the role that owns ",
    ),
    (
        "create role holder; create schema held authorization holder; create role between; grant holder to between; "
        "grant between to formulary_server with inherit false",
        "drop schema held; drop role between; drop role holder",
        "may act as the role that owns schema held",
    ),
]


@pytest.fixture(scope="module")
def postgres(data_dirs: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL of this module's own, since roles belong to the whole server."""
    with EmbeddedPostgres(data_dir=data_dirs / "owners-password") as running:
        yield running


@pytest.fixture(scope="module")
async def admin(postgres: EmbeddedPostgres) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """The superuser, on a database that the owner whom CloudNativePG makes has migrated."""
    cluster = charts.only(charts.render(charts.ci_values()["cnpg"]), "Cluster")["spec"]
    initdb = cluster["bootstrap"]["initdb"]
    maintenance = await asyncpg.connect(postgres.dsn(database="postgres"))
    for statement in (
        "drop database formulary",
        f"create role {initdb['owner']} login",
        f"create database {initdb['database']} owner {initdb['owner']} template template0",
    ):
        await maintenance.execute(statement)
    await maintenance.close()
    connection = await asyncpg.connect(postgres.dsn())
    for statement in (*initdb["postInitApplicationSQL"], *map(_managed, cluster["managed"]["roles"])):
        await connection.execute(statement)
    await asyncio.to_thread(migrate, postgres.dsn(user=initdb["owner"]))
    yield connection
    await connection.close()


def _managed(role: dict[str, Any]) -> str:
    """What CloudNativePG sees to for a role: it is there, logs in, and is in the roles that are named."""
    name, groups = role["name"], role.get("inRoles", [])
    made = f"do $$ begin create role {name}; exception when duplicate_object then null; end $$; "
    return made + f"alter role {name} login" + "".join(f"; grant {group} to {name}" for group in groups)


async def test_a_server_with_the_owners_password_is_not_ready_and_doctor_says_what_to_do(
    postgres: EmbeddedPostgres, admin: object
) -> None:
    with server(dsn=postgres.dsn(), user="formulary") as daemon:
        daemon.start()
        waiting = "the server to look at its login"
        await asyncio.to_thread(wait_until, lambda: _refused(daemon), what=waiting, shown=daemon.output)
        readiness = httpx2.get(f"{daemon.url}/readyz", timeout=10)
        search = httpx2.post(f"{daemon.url}/api/v1/workflows/search", json={"query": "OOMKilled"}, timeout=10)
        arguments = ("--json", "--url", daemon.url, "--database-url", postgres.dsn(user="formulary"))
        examined = await formulary("doctor", *arguments)

    detail = readiness.json()["detail"]
    assert (readiness.status_code, readiness.json()["status"]) == (503, "broken")
    assert "owns " in detail
    assert "connect as formulary_server: give it a password" in detail
    assert search.status_code == 503
    (check,) = [each for each in json.loads(examined.out)["checks"] if each["name"] == "server"]
    assert (examined.code, check["ok"], check["way_out"]) == (3, False, detail)


def _refused(daemon: Daemon) -> bool:
    return any("the database user of the server" in each["reason"] for each in daemon.events("waiting_for_database"))


async def test_with_the_roles_that_cloudnativepg_manages_all_of_it_works_without_the_owner(
    postgres: EmbeddedPostgres, admin: object
) -> None:
    with server(dsn=postgres.dsn()) as daemon:
        await asyncio.to_thread(daemon.start().wait_ready)
        found = httpx2.post(f"{daemon.url}/api/v1/workflows/search", json={"query": "OOMKilled"}, timeout=10)
        operator = postgres.dsn(user=Role.WRITER)
        examined = await checks(Settings(database_url=operator), url=daemon.url)
        verified = await formulary("trace", "verify", "--json", "--database-url", operator)

    assert found.status_code == 200
    assert [each for each in examined if not each.ok] == []
    assert (verified.code, json.loads(verified.out)["event_count"] > 0) == (0, True)


@pytest.mark.parametrize(("grant", "undo", "held"), GRANTS)
async def test_a_servers_role_that_was_given_more_is_refused_and_named_by_doctor(
    postgres: EmbeddedPostgres, admin: "asyncpg.Connection[asyncpg.Record]", grant: str, undo: str, held: str
) -> None:
    async with Database.opened(postgres.dsn(user=Role.SERVER), role=Role.SERVER) as database:
        await require_plain_login(database)
        await admin.execute(grant)
        try:
            with pytest.raises(PrivilegedLogin, match=held):
                await require_plain_login(database)
            (row_security,) = [
                each
                for each in await checks(Settings(database_url=postgres.dsn(user="formulary")), url="http://[::1]:1")
                if each.name == "row security"
            ]
        finally:
            await admin.execute(undo)
        await require_plain_login(database)
    assert f"the server's role {held}" in row_security.detail
    assert not row_security.ok
