"""Backup and restore, by the very commands of docs/operations.md."""

import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.embedded import PSQL, query
from support.filling import fill
from support.process import FORMULARY
from support.services import PATIENT, open_parts, service_on

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
CALLER = Caller(name="test", access=EVERYTHING)
SCHEMA = ["--schema-only", "--schema=formulary", "--no-comments", "formulary"]
_NOISE = re.compile(r"^\\(un)?restrict .*$", re.MULTILINE)  # a random word in each dump


class Server:
    """A PostgreSQL with a database `formulary` whose owner is no superuser, and a shell of its administrator."""

    def __init__(self, postgres: EmbeddedPostgres, *, directory: Path) -> None:
        self.owner = postgres.dsn(user="formulary")
        self._directory = directory
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FORMULARY_", "PG"))},
            "PATH": f"{PSQL.parent}:{Path(FORMULARY).parent}:{os.environ['PATH']}",
            "PGHOST": str(postgres.dsn().partition("host=")[2].partition("&")[0]),
            "PGUSER": "postgres",
            "FORMULARY_DATABASE_URL": self.owner,
        }
        self.sh("dropdb formulary")
        self.sh("psql --dbname=template1 --command='drop extension vector'")  # as in a server of anybody else
        self.sh("createuser --createrole formulary && createdb --owner=formulary formulary")
        self.sh("psql --dbname=formulary --command='create extension vector'")

    def sh(self, script: str) -> str:
        """What the commands print, none of which may fail or complain."""
        done = subprocess.run(
            ["sh", "-ec", script],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert "error" not in done.stderr.lower(), done.stderr
        return done.stdout

    @property
    def schema(self) -> str:
        """All tables, policies, functions and grants."""
        return _NOISE.sub("", self.sh(f"pg_dump {' '.join(SCHEMA)}"))


@pytest.fixture(scope="module")
def servers(data_dirs: Path) -> Iterator[tuple[Server, Server]]:
    """The one that is backed up, and a new one."""
    directory = data_dirs / "dumps"
    directory.mkdir()
    with (
        EmbeddedPostgres(data_dir=data_dirs / "backed-up") as old,
        EmbeddedPostgres(data_dir=data_dirs / "restored") as new,
    ):
        yield Server(old, directory=directory), Server(new, directory=directory)


def documented() -> list[str]:
    """The scripts of the section on backups, in their order: backup, restore."""
    section = OPERATIONS.read_text(encoding="utf-8").partition("\n## Backup and restore\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in blocks]


async def test_the_documented_commands_restore_catalog_trail_and_protection_into_a_new_server(
    servers: tuple[Server, Server],
) -> None:
    old, new = servers
    backup, restore = documented()
    old.sh("formulary migrate")
    async with Database.opened(old.owner, role=Role.WRITER, deadline=PATIENT) as writing:
        versions = [
            manifest.workflow("oom", version=version, what=f"Does {version}.") for version in ("1.0.0", "2.0.0")
        ]
        entries = await fill(CatalogWriter(writing), versions)
    await _asked(old, times=1)
    schema = old.schema
    old.sh(backup)

    new.sh(restore)

    assert new.schema == schema
    assert await _asked(new, times=2) == [entry.version_id for entry in reversed(entries)]
    assert "as they were written" in new.sh("formulary trace verify")


async def test_a_restore_replaces_what_the_database_holds(servers: tuple[Server, Server]) -> None:
    old, _ = servers
    backup, restore = documented()
    old.sh("formulary migrate")
    old.sh(backup)
    async with Database.opened(old.owner, role=Role.WRITER, deadline=PATIENT) as writing:
        await fill(CatalogWriter(writing), [manifest.workflow("later")])
    old.sh(restore)
    names = query(old.owner.replace("formulary@", "postgres@"), "select distinct name from formulary.workflow_version")
    assert "later" not in names


async def _asked(server: Server, *, times: int) -> list[str]:
    """The version ids that the catalog tells, newest first, after a search that is the `times`-th in its trail."""
    async with open_parts(server.owner) as parts:
        service = service_on(parts)
        answer = await service.search(search_request(query="oom"), caller=CALLER)
        assert [hit.workflow_id for hit in answer.workflows] == ["oom"]
        details = await service.details("oom", context=ContextReference(), caller=CALLER)
    kinds = query(server.owner, "select count(*) from formulary.trace_event where kind = 'search'")
    assert kinds == str(times)
    return [line.version_id for line in details.versions]
