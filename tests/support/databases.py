"""Databases of a test's own on the shared PostgreSQL."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from formulary_catalog.store.embedded import EmbeddedPostgres
from formulary_catalog.store.migrate import migrate


@asynccontextmanager
async def empty_database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of a database that holds nothing, as its owner."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(postgres.dsn(database="postgres"))
    try:
        await admin.execute(f"create database {name}")
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
