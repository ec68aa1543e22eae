"""Bringing a database to the newest schema, and every way in which that can be refused."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from formulary_catalog.domain.workflows.labels import DIMENSIONS
from formulary_catalog.errors import FormularyError, StartupError, Unavailable
from formulary_catalog.store.database import migrate as migrations
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import (
    HEAD,
    _upgrade,
    describe,
    migrate,
    require_current_schema,
    schema_revision,
)
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.filters import column_of

PASSWORD = "s3cret"


@pytest.fixture
async def owner(empty_database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(empty_database)
    yield connection
    await connection.close()


async def _migrate(dsn: str) -> None:
    await asyncio.to_thread(migrate, dsn)


async def _migrate_in_a_process(dsn: str) -> None:
    code = "import sys; from formulary_catalog.store.database.migrate import migrate; migrate(sys.argv[1])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, dsn)
    async with asyncio.timeout(60):
        assert await process.wait() == 0


async def _refusal(dsn: str, kind: type[FormularyError] = StartupError) -> str:
    """Why the database is refused, in one line that keeps the password to itself."""
    with pytest.raises(kind) as refusal:
        await _migrate(dsn)
    message = str(refusal.value)
    assert message.isprintable()
    assert PASSWORD not in message
    assert PASSWORD[:3] not in message
    return message


def test_the_newest_revision_is_the_one_that_starting_asks_for() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parents[1] / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [HEAD]
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True), "revisions are compared as text"


async def test_an_empty_database_is_brought_to_the_newest_revision(empty_database: str) -> None:
    assert await schema_revision(empty_database) == ""
    with pytest.raises(StartupError, match=r"empty.*formulary migrate"):
        await require_current_schema(empty_database)
    await _migrate(empty_database)
    assert await schema_revision(empty_database) == HEAD
    await require_current_schema(empty_database)


async def test_the_covering_index_holds_every_label_that_a_search_may_filter_by(database: str) -> None:
    connection = await asyncpg.connect(database)
    columns = await connection.fetch(
        "select attname from pg_attribute where attrelid = 'formulary.workflow_search_covering'::regclass"
    )
    await connection.close()
    assert {column_of(name) for name in DIMENSIONS} <= {row["attname"] for row in columns}


async def test_running_again_changes_nothing(database: str) -> None:
    connection = await asyncpg.connect(database)
    catalog = (
        "select array_agg((oid, xmin::text) order by oid) from pg_class where relnamespace = 'formulary'::regnamespace"
    )
    before = await connection.fetchval(catalog)
    await _migrate(database)
    assert await connection.fetchval(catalog) == before
    await connection.close()


async def test_several_processes_may_migrate_one_database_at_once(empty_database: str) -> None:
    await asyncio.gather(*(_migrate_in_a_process(empty_database) for _ in range(3)))
    assert await schema_revision(empty_database) == HEAD


async def test_several_processes_may_migrate_databases_of_a_new_server_at_once(data_dirs: Path) -> None:
    with EmbeddedPostgres(data_dir=data_dirs / "new") as server:
        admin = await asyncpg.connect(server.dsn())
        names = ["formulary", "second", "third"]
        for name in names[1:]:
            await admin.execute(f"create database {name}")
        await admin.close()
        await asyncio.gather(*(_migrate_in_a_process(server.dsn(database=name)) for name in names))
        assert [await schema_revision(server.dsn(database=name)) for name in names] == [HEAD] * 3


async def test_a_migration_waits_for_a_backup_without_holding_up_those_who_read(
    owner: "asyncpg.Connection[asyncpg.Record]", empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("formulary_catalog.store.database.migrate._LOCK_PAUSE", 0.2)
    await owner.execute("create schema formulary; create extension if not exists vector")
    await _upgrade(empty_database, to="0001")
    backup = await asyncpg.connect(empty_database)
    await backup.execute("begin; lock table formulary.workflow_version in access share mode")
    migrating = asyncio.create_task(_migrate(empty_database))
    reader = await asyncpg.connect(empty_database)
    for _ in range(5):
        await asyncio.sleep(0.4)
        assert await reader.fetchval("select count(*) from formulary.workflow_version", timeout=1.8) == 0
    assert not migrating.done()
    await backup.close()
    async with asyncio.timeout(20):
        await migrating
    assert await schema_revision(empty_database) == HEAD
    await reader.close()


async def test_a_database_of_something_else_is_left_alone(
    owner: "asyncpg.Connection[asyncpg.Record]", empty_database: str
) -> None:
    await owner.execute("create schema shop; create table shop.orders (id integer)")
    assert "shop.orders" in await _refusal(empty_database)
    assert not await owner.fetchval("select exists (select from pg_namespace where nspname = 'formulary')")


async def test_a_schema_of_our_name_that_is_not_ours_is_left_alone(
    owner: "asyncpg.Connection[asyncpg.Record]", empty_database: str
) -> None:
    await owner.execute("create schema formulary; create table formulary.patients (id integer)")
    assert "not made by Formulary" in await _refusal(empty_database)


async def test_an_empty_schema_of_our_name_is_taken_over(
    owner: "asyncpg.Connection[asyncpg.Record]", empty_database: str
) -> None:
    await owner.execute("create schema formulary")
    await _migrate(empty_database)
    assert await schema_revision(empty_database) == HEAD


async def test_a_schema_that_a_later_release_only_added_to_is_worked_with_and_left_as_it_is(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("update formulary.alembic_version set version_num = $1", f"{HEAD[0]}999")
    await _migrate(database)
    await require_current_schema(database)
    assert await connection.fetchval("select version_num from formulary.alembic_version") == f"{HEAD[0]}999"
    await connection.close()


async def test_a_schema_of_an_incompatible_newer_version_is_refused_by_migrating_and_by_starting(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("update formulary.alembic_version set version_num = '9999'")
    await connection.close()
    assert "9999" in await _refusal(database)
    with pytest.raises(StartupError, match=r"newer Formulary.*upgrade"):
        await require_current_schema(database)


@pytest.mark.parametrize("revision", ["0010", "0039"])
async def test_a_schema_between_two_releases_is_refused_with_the_next_step(database: str, revision: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("update formulary.alembic_version set version_num = $1", revision)
    await connection.close()
    message = await _refusal(database)
    assert f"at revision {revision}, which no release has" in message
    assert "new database" in message
    assert "`formulary migrate` of commit 5fa61ffd" in message
    with pytest.raises(StartupError, match="which no release has"):
        await require_current_schema(database)


async def test_a_server_without_pgvector_is_refused_with_the_package_to_install(
    owner: "asyncpg.Connection[asyncpg.Record]", empty_database: str
) -> None:
    # The server looks for extensions where it is told to: nowhere, so it truly has none.
    await owner.execute("drop extension if exists vector")
    name = await owner.fetchval("select current_database()")
    await owner.execute(f"alter database {name} set extension_control_path = '/nonexistent'")
    message = await _refusal(empty_database)
    assert "has no pgvector" in message
    assert "postgresql-NN-pgvector" in message


async def test_a_user_without_the_needed_privileges_is_told_what_to_ask_for(
    owner: "asyncpg.Connection[asyncpg.Record]", postgres: EmbeddedPostgres, database: str, empty_database: str
) -> None:
    name = await owner.fetchval("select current_database()")
    await owner.execute(f"create role lowly_{name} login password '{PASSWORD}'")
    lowly = f"lowly_{name}:{PASSWORD}@"
    migrated, empty = database.replace("postgres@", lowly), empty_database.replace("postgres@", lowly)
    try:
        assert "create role formulary_server" in await _refusal(empty)
        assert "connect as its owner" in await _refusal(migrated)
        with pytest.raises(StartupError, match="connect as its owner"):
            await schema_revision(migrated)
        with pytest.raises(StartupError, match="formulary_server"):
            await Database.open(migrated, role=Role.SERVER)
    finally:
        await owner.execute(f"drop role lowly_{name}")


async def test_an_owner_who_is_no_superuser_can_migrate_and_serve(
    owner: "asyncpg.Connection[asyncpg.Record]", database: str, empty_database: str
) -> None:
    name = await owner.fetchval("select current_database()")
    await owner.execute(f"create role owner_{name} login; grant formulary_server, formulary_writer to owner_{name}")
    await owner.execute(f"alter database {name} owner to owner_{name}")
    plain = empty_database.replace("postgres@", f"owner_{name}@")
    await _migrate(plain)
    for role in Role:
        opened = await Database.open(plain, role=role)
        await opened.execute("select 1")
        await opened.close()
    await owner.execute(f"alter database {name} owner to postgres; reassign owned by owner_{name} to postgres")
    await owner.execute(f"drop owned by owner_{name}; drop role owner_{name}")


async def test_an_unknown_user_or_database_is_named_with_the_way_out(postgres: EmbeddedPostgres) -> None:
    assert "createdb" in await _refusal(postgres.dsn(database="nowhere"))
    refused = await _refusal(postgres.dsn(user="nobody-known"))
    assert "user or password; correct them in --database-url, or await its migration" in refused


UNREACHABLE = f"postgresql://user:{PASSWORD}@127.0.0.1:1/formulary"


async def test_a_database_that_does_not_answer_may_answer_later() -> None:
    message = await _refusal(UNREACHABLE, Unavailable)
    assert "'formulary' on 127.0.0.1 does not answer" in message
    with pytest.raises(Unavailable):
        await require_current_schema(UNREACHABLE)
    with pytest.raises(Unavailable):
        await Database.open(UNREACHABLE, role=Role.SERVER)


@pytest.mark.parametrize(
    "dsn",
    [
        "nonsense",
        f"mysql://user:{PASSWORD}@host/db",
        f"host=127.0.0.1 dbname=db password={PASSWORD}",
        f"postgresql://user:{PASSWORD}@[::1/db",
        f"postgresql://user:{PASSWORD}@127.0.0.1:port/db",
        f"postgresql://user:{PASSWORD}@127.0.0.1:99999999/db",
        f"postgresql://user:{PASSWORD}@127.0.0.1:1/db?sslmode=bogus",
    ],
)
async def test_what_is_no_address_is_refused_with_an_example_of_one(dsn: str) -> None:
    assert "give postgresql://" in await _refusal(dsn)
    with pytest.raises(StartupError, match="give postgresql://"):
        await Database.open(dsn, role=Role.SERVER)


async def test_a_root_certificate_that_is_not_there_is_named_with_the_way_to_give_one(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.crt"
    garbage.write_text("no certificate")
    address = f"postgresql://user:{PASSWORD}@127.0.0.1:1/db?sslmode=verify-full"

    assert "sslrootcert=FILE" in await _refusal(address)
    missing = await _refusal(f"{address}&sslrootcert={tmp_path}/missing.crt")
    assert "missing.crt' cannot be read; correct sslrootcert" in missing
    assert "cannot be read" in await _refusal(f"{address}&sslrootcert={tmp_path}")
    assert "garbage.crt' is not one; give a PEM file" in await _refusal(f"{address}&sslrootcert={garbage}")


async def test_a_socket_that_is_not_there_yet_may_be_there_later(tmp_path: Path) -> None:
    dsn = f"postgresql://user:{PASSWORD}@/formulary?host={tmp_path}"

    assert "does not answer" in await _refusal(dsn, Unavailable)


@pytest.mark.parametrize(
    "password", [f"1/{PASSWORD}", f"1/{PASSWORD}/x", f"{PASSWORD}@home", f"1#{PASSWORD}", f"1?{PASSWORD}"]
)
async def test_a_password_that_should_have_been_escaped_does_not_show_either(password: str) -> None:
    dsn = f"postgresql://user:{password}@127.0.0.1:1/db"
    assert PASSWORD not in describe(dsn)
    with pytest.raises(FormularyError) as refusal:
        await _migrate(dsn)
    assert PASSWORD not in str(refusal.value)
