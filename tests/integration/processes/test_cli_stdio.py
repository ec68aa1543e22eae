"""`formulary stdio` as clients start it: a process, a real MCP client, nothing but the protocol on standard output."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, RequestParamsMeta

from formulary_catalog.domain.entry import incident_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.edges.mcp.tools import tools_of
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.operations.json_text import META_KEY
from formulary_catalog.settings import LISTED_TOOLSETS
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.agent import ERAS, refused
from support.agent import found as ids
from support.commands import formulary_now
from support.filling import fill
from support.manifest import analysis, text, workflow
from support.process import FORMULARY, formulary_up
from support.targets import example_reader
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
SEARCH = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "search_workflow_catalog", "arguments": {"query": "OOMKilled critical"}},
}


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A directory with one workflow."""
    return filled(tmp_path)


def filled(place: Path) -> Path:
    directory = place / "manifests"
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


def command(*arguments: str, incident: str = "") -> StdioServerParameters:
    environment = {**os.environ, "FORMULARY_REMEDIATION_ID": incident}
    return StdioServerParameters(command=FORMULARY, args=["stdio", *arguments], env=environment)


async def found(*arguments: str, incident: str = "") -> list[str]:
    """What a client finds that starts `formulary stdio` with these arguments."""
    async with Client(command(*arguments, incident=incident)) as client:
        return ids(await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"}))


@contextmanager
def conversation(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The process, for a client that reads and writes its lines itself."""
    with subprocess.Popen(
        [FORMULARY, "stdio", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answered(process: "subprocess.Popen[str]", request: Mapping[str, Any]) -> dict[str, Any]:
    """The result of one request."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert answer["id"] == request["id"]
    result: dict[str, Any] = answer["result"]
    return result


@pytest.fixture
def silent_database() -> Iterator[str]:
    """The address of a database that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"postgresql://nobody@127.0.0.1:{listener.getsockname()[1]}/nothing"


def test_what_answers_initialize_imports_nothing_that_the_catalog_needs() -> None:
    """Clients give a server that they start little time, and these take longer to import than the protocol."""
    heavy = (
        "numpy",
        "asyncpg",
        "fastapi",
        "sqlglot",
        "structlog",
        "rich",
        "formulary_catalog.store",
        "formulary_catalog.kernel.parts",
    )
    lines = (
        "import sys",
        "import formulary_catalog.edges.mcp.stdio",
        f"print([n for n in {heavy} if n in sys.modules])",
    )
    done = subprocess.run([sys.executable, "-c", "; ".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_it_loads_manifests_into_a_database_of_its_own_and_a_first_search_says_what_it_waits_for(
    data_dir: Path, manifests: Path
) -> None:
    said: list[tuple[float, float | None, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        said.append((progress, total, message))

    async with Client(command("--data-dir", str(data_dir), "--manifests", str(manifests))) as client:
        arguments = {"query": "OOMKilled critical"}
        answer = await client.call_tool("search_workflow_catalog", arguments, progress_callback=heard)
    assert ids(answer) == ["a"]
    assert said, "the catalog cannot be open yet"
    assert {message for *_, message in said} == {"the catalog is being opened"}
    assert [waited for waited, *_ in said] == sorted(waited for waited, *_ in said)


@pytest.mark.long
async def test_without_manifests_it_knows_no_target_of_the_examples(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORMULARY_EMBEDDING_MODEL", "/nowhere")  # nothing is embedded, which is quicker
    free = TargetContexts(example_reader(), mapping=DEFAULT_MAPPING).examples()[-1]
    async with Client(command("--data-dir", str(data_dir))) as client:
        answer = await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical", "target": str(free)})
    assert f"namespace {free.namespace} does not exist in the manifests" in refused(answer)


@pytest.fixture(scope="module")
def served_data(data_dirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a running `formulary up` with one workflow."""
    place = tmp_path_factory.mktemp("served")
    with formulary_up(data_dir=data_dirs / place.name, manifests=[filled(place)]):
        yield data_dirs / place.name


async def test_it_reads_the_catalog_of_a_running_up_on_the_same_data(served_data: Path) -> None:
    assert await found("--data-dir", str(served_data)) == ["a"]
    assert await found("--data-dir", str(served_data)) == ["a"]


def test_manifests_that_would_be_ignored_are_refused(served_data: Path, manifests: Path) -> None:
    with conversation("--data-dir", str(served_data), "--manifests", str(manifests)) as process:
        answered(process, INITIALIZE)
        refusal = answered(process, SEARCH)
        _, err = process.communicate(timeout=SECONDS)
    ignored = "--manifests would be ignored; leave it out, or name another directory with --data-dir"
    assert refusal["isError"]
    assert ignored in refusal["content"][0]["text"]
    assert process.returncode == 3
    assert f"formulary: another process already serves its own manifests from this data directory, so {ignored}" in err


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tools_are_listed_before_there_is_a_database(silent_database: str, mode: str) -> None:
    async with Client(command("--database-url", silent_database), mode=mode) as client:
        assert len((await client.list_tools()).tools) == len(tools_of(LISTED_TOOLSETS))


def test_a_client_that_leaves_before_the_catalog_is_open_ends_the_process(silent_database: str) -> None:
    with conversation("--database-url", silent_database) as process:
        assert answered(process, INITIALIZE)["serverInfo"]["name"] == "formulary"
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_a_catalog_that_cannot_be_opened_is_an_error_of_each_call_and_of_the_process() -> None:
    with conversation("--database-url", "postgresql://nobody@127.0.0.1:1/nothing") as process:
        answered(process, INITIALIZE)
        refusals = [answered(process, SEARCH), answered(process, SEARCH)]
        _, err = process.communicate(timeout=SECONDS)
    assert [refusal["isError"] for refusal in refusals] == [True, True]
    text = refusals[0]["content"][0]["text"]
    assert text.startswith("the catalog could not be opened: ")
    assert "start the server again" in text
    assert process.returncode == 3
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("formulary: ")


@pytest.fixture
async def of_teams(
    database: str, workflows: CatalogWriter, contexts: ContextWriter, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """Options that name a database with a workflow and an incident for each of two teams. No model is needed."""
    monkeypatch.setenv("FORMULARY_EMBEDDING_MODEL", "/nowhere")
    for team in ("payments", "search"):
        await fill(workflows, [workflow(f"for-{team}", customLabels={"team": [team]})])
        incident = analysis(team, remediation_id=f"rr-{team}", labels={"team": [team]})
        await contexts.save(incident_context(incident, source="test", default_namespace="formulary"))
    return "--database-url", database


@pytest.mark.long
async def test_the_variable_names_the_incident_of_the_process_in_a_named_database_and_a_blank_one_names_none(
    of_teams: tuple[str, str],
) -> None:
    assert await found(*of_teams, incident=" rr-search ") == ["for-search"]
    assert sorted(await found(*of_teams, incident=" ")) == ["for-payments", "for-search"]
    assert await found(*of_teams, "--remediation-id", "rr-payments", incident="rr-search") == ["for-payments"]


@pytest.mark.smoke
@pytest.mark.parametrize("mode", ERAS)
async def test_the_incident_of_the_process_constrains_every_call_and_meta_may_not_disagree(
    of_teams: tuple[str, str], mode: str
) -> None:
    async with Client(command(*of_teams, "--remediation-id", "rr-payments"), mode=mode) as client:

        async def searched(**meta: str) -> CallToolResult:
            sent = cast(RequestParamsMeta, {META_KEY: meta["meta"]} if meta else {})
            return await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"}, meta=sent)

        assert ids(await searched()) == ids(await searched(meta="rr-payments")) == ["for-payments"]
        assert "different remediation ids" in refused(await searched(meta="rr-search"))
        hidden = await client.call_tool("get_workflow_details", {"workflow_id": "for-search"})
        assert "not found" in refused(hidden)


@pytest.mark.smoke
async def test_an_unknown_incident_of_the_process_fails_closed(of_teams: tuple[str, str]) -> None:
    async with Client(command(*of_teams, "--remediation-id", "rr-nobody")) as client:
        result = await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"})
    assert "'rr-nobody' is not known here" in refused(result)


@pytest.mark.parametrize("odd", ["x" * 254, "rr\u00fc", "rr\n1"])
def test_an_id_that_no_incident_can_have_is_refused_at_the_start(odd: str) -> None:
    done = formulary_now("stdio", "--remediation-id", odd)

    assert (done.code, done.out) == (2, "")
    assert "--remediation-id or FORMULARY_REMEDIATION_ID" in done.err
    assert odd not in done.err


def test_standard_output_carries_the_protocol_only_and_a_signal_ends_it(data_dir: Path, manifests: Path) -> None:
    (manifests / "bad.yaml").write_text("a: [")
    arguments = ("--data-dir", str(data_dir), "--manifests", str(manifests), "--log-level", "debug")
    with conversation(*arguments) as process:
        assert answered(process, INITIALIZE)["serverInfo"]["name"] == "formulary"
        assert not answered(process, SEARCH).get("isError")
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
        assert process.stdout is not None
        assert process.stdout.read() == ""
        assert process.stderr is not None
        assert "rejected: bad.yaml" in process.stderr.read()
    assert process.returncode == 0


def test_a_signal_ends_it_while_the_catalog_is_still_being_opened(silent_database: str) -> None:
    with conversation("--database-url", silent_database) as process:
        answered(process, INITIALIZE)
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    assert process.returncode == 0
