"""What commands read from: a server that is not there or not ours, a lost data directory; and what doctor says."""

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.store.database.migrate import describe
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.commands import answer_of, assert_one_line, formulary
from support.databases import migrated_database
from support.impostor import answering
from support.services import open_parts
from support.serving import serving


async def test_no_server_is_said_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
    done = await formulary("search", "x", "--url", closed)
    assert_one_line(done, code=3, saying=f"no server at {closed}; start one with `formulary up`")


async def test_something_that_is_not_formulary_is_told_apart() -> None:
    async with answering(b"<html>") as address:
        done = await formulary("list", "--url", address)
        assert_one_line(done, code=3, saying="does not answer like this version of Formulary")
        found = await formulary("doctor", "--url", address)
    assert f"✗ server        what listens at {address} is not Formulary" in found.out


@pytest.mark.parametrize("address", ["localhost:8080", "http://", "http://[::1", "ftp://127.0.0.1"])
async def test_an_address_that_is_none_is_wrong_usage(address: str) -> None:
    assert_one_line(await formulary("list", "--url", address), code=2, saying="is not an HTTP address")


async def test_a_data_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = await formulary("list", "--data-dir", str(tmp_path / "typo"))
    assert_one_line(done, code=3, saying="there is no catalog in")
    assert not (tmp_path / "typo").exists()


async def test_a_data_directory_whose_database_does_not_answer_is_not_to_be_taken_from_its_server(
    tmp_path: Path,
) -> None:
    with (tmp_path / "lock").open("w") as lock:
        lock.write(str(os.getpid()))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = await formulary("list", FORMULARY_DATA_DIR=str(tmp_path))
    assert (done.code, done.out) == (3, "")
    assert f"the PostgreSQL in {tmp_path} does not answer, and process {os.getpid()} (formulary up)" in done.err
    assert "restart that `formulary up`" in done.err
    assert "stop it" not in done.err


ON_A_DATABASE = (
    ["trace", "verify"],
    ["trace", "checkpoint"],
    ["trace", "expire"],
    ["governance", "evaluate", "--task", "x"],
    ["runbooks", "list"],
    ["reembed"],
)


@pytest.mark.parametrize("command", ON_A_DATABASE, ids=" ".join)
async def test_a_command_on_a_database_does_not_take_its_own_where_the_settings_name_a_server(
    command: list[str], database: str
) -> None:
    done = await formulary(*command, FORMULARY_URL="http://127.0.0.1:9", FORMULARY_DATABASE_URL=database)
    assert_one_line(done, code=2, saying="FORMULARY_URL is 'http://127.0.0.1:9', and this command works on a database")
    assert "name the database with --database-url or --data-dir" in done.err


async def test_all_events_are_not_exported_from_a_database_while_the_settings_name_a_server(database: str) -> None:
    export = ("trace", "export", "--all", "--jsonl", "-")
    refused = await formulary(*export, FORMULARY_URL="http://127.0.0.1:9", FORMULARY_DATABASE_URL=database)
    assert (refused.code, refused.out) == (2, "")
    assert "--all reads a database; name it with --database-url or --data-dir" in refused.err
    named = await formulary(*export, "--database-url", database, FORMULARY_URL="http://127.0.0.1:9")
    assert (named.code, named.err) == (0, answer_of(describe(database)))


async def test_a_verdict_names_what_it_is_about_and_a_program_gets_json_alone(database: str) -> None:
    named = ("--database-url", database)
    verified = await formulary("trace", "verify", *named, FORMULARY_URL="http://127.0.0.1:9")
    assert (verified.code, verified.err) == (0, "")
    assert f"this is the trail of {describe(database)}" in verified.out
    assert json.loads((await formulary("trace", "verify", "--json", *named)).out)["database"] == describe(database)
    judged = await formulary("governance", "evaluate", "--task", "x", "--action", "list pods", *named)
    assert judged.out.rstrip().endswith(f" of {describe(database)}")
    assert judged.err == ""
    listed = await formulary("list", "--json", *named)
    assert (json.loads(listed.out)["workflows"], listed.err) == ([], answer_of(describe(database)))


async def test_doctor_sees_that_a_server_has_another_database(
    database: str, postgres: EmbeddedPostgres, embedder: Embedder
) -> None:
    async with (
        migrated_database(postgres) as other,
        open_parts(other, embedder=embedder) as parts,
        serving(parts) as url,
    ):
        mixed = await formulary("doctor", "--url", url, "--database-url", database)
        same = await formulary("doctor", "--url", url, "--database-url", other)
    assert mixed.code == 3
    assert f"✗ server        ready at {url}, but of another database than this one" in mixed.out
    assert "name its database with --database-url or --data-dir" in " ".join(mixed.out.split())
    assert f"✓ server        ready at {url}, mode hybrid" in same.out


async def test_doctor_sees_what_is_amiss_and_says_the_way_out(database: str, empty_database: str) -> None:
    owner = await asyncpg.connect(database)
    await owner.execute("alter table formulary.workflow_version no force row level security")
    await owner.close()
    done = await formulary("doctor", "--json", "--database-url", database, "--url", "http://127.0.0.1:9")
    amiss = {check["name"]: check["detail"] for check in json.loads(done.out)["checks"] if not check["ok"]}
    assert amiss == {"row security": "not forced on workflow_version", "server": "none at http://127.0.0.1:9"}
    assert done.code == 3
    empty = await formulary("doctor", "--database-url", empty_database, FORMULARY_EMBEDDING_MODEL="/nowhere")
    assert empty.code == 3
    assert "✗ model         not usable: searches would rank by words alone" in empty.out
    assert "✗ schema        none in PostgreSQL 18" in empty.out
    assert "run `formulary migrate`, which makes it" in empty.out


async def test_doctor_says_which_labels_of_targets_are_constraints_and_what_is_wrong_with_their_mapping(
    empty_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "context.yaml"

    async def targets(mapping: str) -> dict[str, Any]:
        file.write_text(mapping)
        done = await formulary("doctor", "--json", "--database-url", empty_database, FORMULARY_CONTEXT_FILE=str(file))
        (check,) = [each for each in json.loads(done.out)["checks"] if each["name"] == "targets"]
        found: dict[str, Any] = check
        return found

    good, wrong = await targets("environment: {labels: [stage]}"), await targets("enviroment: {labels: [stage]}")

    assert (good["ok"], "environment from stage" in good["detail"]) == (True, True)
    assert not wrong["ok"]
    assert "enviroment" in wrong["way_out"]
