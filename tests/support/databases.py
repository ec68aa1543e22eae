"""Databases of a test's own on the shared PostgreSQL."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres


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
    """The DSN of a database with our schema and no rows, as its owner."""
    async with empty_database(postgres) as dsn:
        await asyncio.to_thread(migrate, dsn)
        yield dsn


@asynccontextmanager
async def copied_database(postgres: EmbeddedPostgres, original: str) -> AsyncIterator[str]:
    """The DSN of a copy of the database with the DSN `original`, to which nobody may be connected meanwhile."""
    async with empty_database(postgres, template=urlsplit(original).path.removeprefix("/")) as dsn:
        yield dsn
