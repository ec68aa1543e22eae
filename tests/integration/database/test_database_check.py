"""Asking whether the database is there, without costing it what it lacks most when it is busy."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from formulary_catalog.errors import TooLarge, Unavailable
from formulary_catalog.store.database.connection import Connection, Database, Role


@pytest.fixture
async def closed_door(database: str, empty_database: str) -> AsyncIterator[Database]:
    """A database that takes no new connections, and goes on answering on those that it has."""
    opened = await Database.open(database, role=Role.SERVER)
    admin = await asyncpg.connect(empty_database)
    name = urlsplit(database).path.removeprefix("/")
    await admin.execute(f"alter database {name} with allow_connections false")
    yield opened
    await admin.execute(f"alter database {name} with allow_connections true")
    await admin.close()
    await opened.close()


async def _one(connection: Connection) -> int:
    return int(await connection.fetchval("select 1"))


async def test_a_database_that_answered_a_moment_ago_is_not_asked_again(closed_door: Database) -> None:
    with pytest.raises(Unavailable):
        await closed_door.ping()

    assert await closed_door.read(_one) == 1
    await closed_door.ping()


async def test_a_closed_pool_is_no_database_even_a_moment_after_an_answer(closed_door: Database) -> None:
    await closed_door.read(_one)
    await closed_door.close()

    with pytest.raises(Unavailable, match="the server is stopping"):
        await closed_door.ping()


async def test_a_value_that_is_too_large_is_no_outage(writing: Database) -> None:
    with pytest.raises(TooLarge, match=r"^a value is larger than the database takes; shorten it$"):
        await writing.fetch("select to_tsvector('simple', string_agg(n::text, ' ')) from generate_series(1, 200000) n")
