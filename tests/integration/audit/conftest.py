"""The trail on a real database, as a caller writes it, as the operator vouches for it, and as its owner sees it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.events import TraceStore
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.connection import Database, Role


@pytest.fixture
async def serving_role(database: str) -> AsyncIterator[Database]:
    opened = await Database.open(database, role=Role.SERVER, size=20, deadline=30)
    yield opened
    await opened.close()


@pytest.fixture
def traces(serving_role: Database) -> TraceStore:
    return TraceStore(serving_role)


@pytest.fixture
def checkpoints(writing: Database) -> CheckpointStore:
    return CheckpointStore(writing)


@pytest.fixture
async def reader(database: str) -> AsyncIterator[TraceReader]:
    async with TraceReader.open(database) as opened:
        yield opened


@pytest.fixture
async def owner(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database, server_settings={"search_path": "formulary, public"})
    yield connection
    await connection.close()
