"""The token of the admission webhook, as it is kept in the real database."""

import asyncio
import re

import asyncpg
import pytest

from formulary_catalog.errors import Unavailable
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.webhook_token import webhook_token


async def test_replicas_that_start_at_once_agree_on_one_token(database: str, writing: Database) -> None:
    found = set(await asyncio.gather(*(webhook_token(writing) for _ in range(6))))
    async with Database.opened(database, role=Role.WRITER) as other:
        found.add(await webhook_token(other))
    (token,) = found
    assert re.fullmatch("[0-9a-f]{64}", token)


async def test_the_server_can_neither_read_nor_make_it(database: str, writing: Database) -> None:
    async with Database.opened(database, role=Role.SERVER) as serving:
        with pytest.raises(Unavailable):
            await webhook_token(serving)
        await webhook_token(writing)
        with pytest.raises(Unavailable):
            await webhook_token(serving)


@pytest.mark.parametrize(
    "statement", ["update formulary.webhook_token set token = token", "delete from formulary.webhook_token"]
)
async def test_the_writer_cannot_change_it(database: str, writing: Database, statement: str) -> None:
    await webhook_token(writing)
    connection = await asyncpg.connect(database, user=Role.WRITER.value)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_there_is_never_a_second_one(database: str, writing: Database) -> None:
    await webhook_token(writing)
    connection = await asyncpg.connect(database, user=Role.WRITER.value)
    try:
        for statement in ("(token) values ($1)", "(only_one, token) values (false, $1)"):
            with pytest.raises(asyncpg.IntegrityConstraintViolationError):
                await connection.execute(f"insert into formulary.webhook_token {statement}", "0" * 64)
    finally:
        await connection.close()
