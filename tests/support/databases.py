"""Databases of a test's own on the shared PostgreSQL."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from formulary_catalog.store.database.connection import Role
from formulary_catalog.store.database.migrate import HEAD, migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres

_MIGRATED = f"migrated_{HEAD}"
_UNFINISHED = "migrating"


@asynccontextmanager
async def empty_database(postgres: EmbeddedPostgres, *, template: str = "template1") -> AsyncIterator[str]:
    """The DSN of a database that holds nothing but what `template` does, as its owner."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(postgres.dsn(database="postgres"))
    try:
        await admin.execute(f"create database {name} template {template}")
        yield postgres.dsn(database=name)
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


@asynccontextmanager
async def migrated_database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of a database with our schema and no rows, as its owner: a copy of one that was migrated.

    All copies have the same keys of digests.
    """
    async with empty_database(postgres, template=await _migrated_once(postgres)) as dsn:
        yield dsn


@asynccontextmanager
async def copied_database(postgres: EmbeddedPostgres, original: str) -> AsyncIterator[str]:
    """The DSN of a copy of the database with the DSN `original`, to which nobody may be connected meanwhile."""
    async with empty_database(postgres, template=urlsplit(original).path.removeprefix("/")) as dsn:
        yield dsn


def as_user(dsn: str, user: str) -> str:
    """The DSN of another user."""
    return dsn.replace(f"{urlsplit(dsn).netloc.partition('@')[0]}@", f"{user}@", 1)


async def create_roles(dsn: str) -> None:
    """Create the roles of server and operator as an administrator does before an installation."""
    admin = await asyncpg.connect(dsn)
    try:
        for role in Role:
            if not await admin.fetchval("select exists (select from pg_roles where rolname = $1)", role.value):
                await admin.execute(f"create role {role} login")
    finally:
        await admin.close()


async def _migrated_once(postgres: EmbeddedPostgres) -> str:
    """The name of the server's database that is migrated and then only copied: all revisions take half a second."""
    admin = await asyncpg.connect(postgres.dsn(database="postgres"))
    try:
        await admin.execute("select pg_advisory_lock(hashtext($1))", _MIGRATED)
        if not await admin.fetchval("select exists (select from pg_database where datname = $1)", _MIGRATED):
            await admin.execute(f"drop database if exists {_UNFINISHED}")
            await admin.execute(f"create database {_UNFINISHED}")
            await asyncio.to_thread(migrate, postgres.dsn(database=_UNFINISHED))
            await admin.execute(f"alter database {_UNFINISHED} rename to {_MIGRATED}")
            # A connection would keep others from copying it.
            await admin.execute(f"alter database {_MIGRATED} allow_connections false")
    finally:
        await admin.close()
    return _MIGRATED
