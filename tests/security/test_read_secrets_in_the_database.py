"""Somebody reads the database or a dump of it: sensitive input and idempotency keys are not to be had from it."""

import base64
import hashlib
import itertools
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.domain.runs.run import NOT_KEPT, Phase, digest
from formulary_catalog.errors import InvalidInput, NotInvocable, StartupError
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.input_keys import input_keys, local_key_file
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import InvocationStore
from support.runs import CALLER, KEY, KEYS, request

PIN = "4711"
"""Short: whoever has a digest and its salt finds it by trying."""


@pytest.fixture
async def serving(database: str) -> AsyncIterator[Database]:
    opened = await Database.open(database, role=Role.SERVER, deadline=30)
    yield opened
    await opened.close()


@pytest.fixture
def asked(serving: Database) -> InvocationStore:
    return InvocationStore(serving, shared_namespace="formulary", keys=KEYS)


@pytest.fixture
def runs(writing: Database) -> RunWriter:
    return RunWriter(writing, shared_namespace="formulary", keys=KEYS)


@pytest.fixture
async def owner(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def _dump(owner: asyncpg.Connection) -> str:
    """Every row of every table, and of binary columns the bytes as text."""
    tables = await owner.fetch("select tablename from pg_tables where schemaname = 'formulary'")
    rows = [row for table in tables for row in await owner.fetch(f"select t.* from formulary.{table[0]} t")]
    return "\n".join(str(value) for row in rows for value in row.values())


async def test_a_dump_holds_no_sensitive_value_while_the_run_waits_and_the_operator_still_gets_it(
    asked: InvocationStore, runs: RunWriter, owner: asyncpg.Connection
) -> None:
    accepted = (await asked.submit(request(secret={"TOKEN": "hunter2-hunter2"}))).invocation
    dump = await _dump(owner)
    assert "hunter2" not in dump
    assert base64.b64encode(b"hunter2-hunter2").decode() not in dump
    assert await runs.secret(accepted.id) == {"TOKEN": "hunter2-hunter2"}


async def test_a_short_value_cannot_be_guessed_from_its_digest_and_what_is_stored_beside_it(
    asked: InvocationStore, owner: asyncpg.Connection
) -> None:
    accepted = (await asked.submit(request(secret={"PIN": PIN}))).invocation
    kept = accepted.input["PIN"]
    salt = await owner.fetchval("select salt from formulary.invocation where id = $1", accepted.id)
    guesses = ("".join(digits) for digits in itertools.product("0123456789", repeat=4))
    assert kept.startswith("sha256:")
    assert not any(digest(guess, salt=salt) == kept for guess in guesses)


async def test_the_input_of_one_run_cannot_be_moved_into_another(
    asked: InvocationStore, runs: RunWriter, owner: asyncpg.Connection
) -> None:
    victim = (await asked.submit(request(secret={"TOKEN": "of-the-victim"}))).invocation
    mine = (await asked.submit(request(secret={"TOKEN": "mine"}))).invocation
    await owner.execute(
        "update formulary.invocation_secret set sealed = (select sealed from formulary.invocation_secret "
        "where invocation_id = $1) where invocation_id = $2",
        victim.id,
        mine.id,
    )
    with pytest.raises(NotInvocable, match="cannot be decrypted") as refused:
        await runs.secret(mine.id)
    assert "victim" not in str(refused.value)


async def test_a_dry_run_keeps_nothing_of_a_sensitive_value_and_needs_no_key(
    serving: Database, owner: asyncpg.Connection
) -> None:
    keyless = InvocationStore(serving, shared_namespace="formulary")
    rehearsal = request(secret={"PIN": PIN}, dry_run=True, key="once")
    submitted = (await keyless.submit(rehearsal)).invocation
    assert submitted.input["PIN"] == NOT_KEPT
    assert await owner.fetchval("select count(*) from formulary.invocation_secret") == 0
    hashes = await owner.fetchrow("select request_hash, salt from formulary.invocation where id = $1", submitted.id)
    assert hashes is not None
    other = request(secret={"PIN": "0000"}, dry_run=True, key="once")
    assert other.request_hash(salt=hashes["salt"]) == hashes["request_hash"], "no part of the hash comes from it"
    assert (await keyless.submit(other)).repeated


async def test_without_a_key_a_run_with_sensitive_input_is_refused_and_nothing_is_stored_and_others_are_taken(
    serving: Database, owner: asyncpg.Connection
) -> None:
    keyless = InvocationStore(serving, shared_namespace="formulary")
    with pytest.raises(NotInvocable, match="FORMULARY_INPUT_KEY_FILE") as refused:
        await keyless.submit(request(secret={"TOKEN": "hunter2"}))
    assert "hunter2" not in str(refused.value)
    assert await owner.fetchval("select count(*) from formulary.invocation") == 0
    assert (await keyless.submit(request())).invocation.phase is Phase.PENDING


async def test_keys_are_rotated_without_losing_a_run_that_waits(
    asked: InvocationStore, writing: Database, serving: Database
) -> None:
    accepted = (await asked.submit(request(secret={"TOKEN": "x"}, key="k"))).invocation
    rotated = InputKeys.load(f"{InputKeys.generate()}\n{KEY}\n")
    writer = RunWriter(writing, shared_namespace="formulary", keys=rotated)
    assert await writer.secret(accepted.id) == {"TOKEN": "x"}
    newer = InvocationStore(serving, shared_namespace="formulary", keys=rotated)
    assert (await newer.submit(request(secret={"TOKEN": "x"}, key="k"))).repeated
    with pytest.raises(InvalidInput, match="was used for another request"):
        await newer.submit(request(secret={"TOKEN": "y"}, key="k"))
    forgotten = RunWriter(writing, shared_namespace="formulary", keys=InputKeys.load(InputKeys.generate()))
    with pytest.raises(NotInvocable, match="keep old keys"):
        await forgotten.secret(accepted.id)


async def test_a_run_that_an_older_server_took_still_gets_its_values(
    asked: InvocationStore, runs: RunWriter, owner: asyncpg.Connection
) -> None:
    accepted = (await asked.submit(request())).invocation
    await owner.execute(
        "insert into formulary.invocation_secret (invocation_id, content) values ($1, $2)",
        accepted.id,
        json.dumps({"TOKEN": "old"}),
    )
    assert await runs.secret(accepted.id) == {"TOKEN": "old"}


async def test_an_idempotency_key_is_nowhere_and_still_finds_its_run(
    asked: InvocationStore, owner: asyncpg.Connection
) -> None:
    first = (await asked.submit(request(key="ticket-of-customer-81"))).invocation
    again = await asked.submit(request(key="ticket-of-customer-81"))
    assert (again.repeated, again.invocation.id) == (True, first.id)
    with pytest.raises(InvalidInput, match="was used for another request") as refused:
        await asked.submit(request(key="ticket-of-customer-81", values={"REPLICAS": 3}))
    assert "customer-81" not in str(refused.value) + await _dump(owner)
    assert first.idempotency_key == "sha256:" + hashlib.sha256(f"{CALLER}\0ticket-of-customer-81".encode()).hexdigest()


def test_the_key_of_a_data_directory_is_made_once_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = local_key_file(tmp_path)
    finally:
        os.umask(old)
    content = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert local_key_file(tmp_path).read_text() == content
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert len(input_keys(Settings(input_key_file=path)).keys) == 1


@pytest.mark.parametrize("content", ["", "hunter2", "aHVudGVyMg==", "\u2713"])
def test_a_file_without_keys_stops_the_start_and_is_not_repeated(tmp_path: Path, content: str) -> None:
    path = tmp_path / "input.key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(StartupError, match="openssl rand -base64 32") as refused:
        input_keys(Settings(input_key_file=path))
    assert not content or content not in str(refused.value)
