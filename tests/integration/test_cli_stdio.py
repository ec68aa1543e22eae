"""`formulary stdio` as clients start it: a process, a real MCP client, nothing but the protocol on standard output."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from mcp import Client, StdioServerParameters

from support.commands import formulary_now
from support.manifest import text, workflow
from support.process import FORMULARY, formulary_up
from support.waiting import wait_until

SECONDS = 60
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A directory with one workflow."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "a.yaml").write_text(text(workflow("a")))
    return directory


@pytest.fixture
def data_dir(data_dirs: Path, tmp_path: Path) -> Iterator[Path]:
    """A data directory of this test's own, on which no server is left afterwards."""
    directory = data_dirs / tmp_path.name
    yield directory
    wait_until(lambda: not servers_on(directory), what="PostgreSQL to end")


def servers_on(directory: Path) -> list[int]:
    where = {"name": "postgres", "cwd": str(directory.resolve() / "cluster")}
    return [process.pid for process in psutil.process_iter([*where]) if process.info == where]


def command(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(command=FORMULARY, args=["stdio", *arguments], env=dict(os.environ))


async def found(*arguments: str) -> list[str]:
    """What a client finds that starts `formulary stdio` with these arguments."""
    async with Client(command(*arguments)) as client:
        result = await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"})
    assert result.structured_content is not None
    return [hit["workflow_id"] for hit in result.structured_content["workflows"]]


async def test_it_loads_manifests_into_a_database_of_its_own(data_dir: Path, manifests: Path) -> None:
    assert await found("--data-dir", str(data_dir), "--manifests", str(manifests)) == ["a"]


async def test_it_reads_the_catalog_of_a_running_up_on_the_same_data(data_dir: Path, manifests: Path) -> None:
    with formulary_up(data_dir=data_dir, manifests=[manifests]):
        assert await found("--data-dir", str(data_dir)) == ["a"]
        assert await found("--data-dir", str(data_dir)) == ["a"]


def test_manifests_that_would_be_ignored_are_refused(data_dir: Path, manifests: Path) -> None:
    with formulary_up(data_dir=data_dir, manifests=[manifests]):
        done = formulary_now("stdio", "--data-dir", str(data_dir), "--manifests", str(manifests))
    assert (done.code, done.out) == (3, "")
    assert "--manifests would be ignored; leave it out, or name another directory with --data-dir" in done.err


async def test_it_reads_a_named_database(database: str) -> None:
    assert await found("--database-url", database) == []


def test_standard_output_carries_the_protocol_only_and_a_signal_ends_it(data_dir: Path, manifests: Path) -> None:
    (manifests / "bad.yaml").write_text("a: [")
    process = subprocess.Popen(
        [FORMULARY, "stdio", "--data-dir", str(data_dir), "--manifests", str(manifests), "--log-level", "debug"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert (answer["id"], answer["result"]["serverInfo"]["name"]) == (1, "formulary")
    process.send_signal(signal.SIGTERM)
    process.wait(SECONDS)
    assert process.stdout.read() == ""
    assert process.stderr is not None
    assert "rejected: bad.yaml" in process.stderr.read()
    assert process.returncode == 0
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
