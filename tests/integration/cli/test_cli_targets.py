"""What commands read from: a server that is not there or not ours, a lost data directory; and what doctor says."""

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from support.commands import assert_one_line, formulary
from support.impostor import answering


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
