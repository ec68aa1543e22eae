"""`formulary up` as people run it: real processes, real signals."""

import asyncio
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from formulary_catalog.store.database.migrate import HEAD
from support.commands import Finished, answer_of, formulary_now
from support.control_plane import free_port
from support.databases import create_roles
from support.manifest import analysis, text, workflow
from support.operator_process import server
from support.process import FORMULARY, Up, formulary_up
from support.waiting import wait_until

SECONDS = 30


@pytest.fixture
def data_dir(data_dirs: Path, tmp_path: Path) -> Iterator[Path]:
    """A data directory of this test's own, and afterwards no process that works in it."""
    directory = data_dirs / tmp_path.name
    yield directory
    wait_until(lambda: not servers_on(directory), what="PostgreSQL to end")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A directory with one workflow and one incident."""
    return filled(tmp_path)


def filled(place: Path) -> Path:
    directory = place / "manifests"
    directory.mkdir()
    (directory / "a.yaml").write_text(text(workflow("a"), analysis("ai", remediation_id="rr-1")))
    return directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A data directory that a first start has loaded manifests into, and what `list` and that start said."""

    data_dir: Path
    manifests: Path
    listed: Finished
    output: str


@pytest.fixture(scope="module")
def loaded(data_dirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """For tests of another start on the same data. Nothing runs in it between them."""
    place = tmp_path_factory.mktemp("loaded")
    data_dir, manifests = data_dirs / place.name, filled(place)
    with formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
        listed = formulary_now("list", "--data-dir", str(data_dir))
    assert not servers_on(data_dir)
    return Loaded(data_dir=data_dir, manifests=manifests, listed=listed, output=output(up))


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A server that watches its manifests, of which `bad.yaml` is invalid."""

    up: Up
    data_dir: Path
    manifests: Path


@pytest.fixture(scope="module")
def watched(data_dirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """For tests that leave it as it was."""
    place = tmp_path_factory.mktemp("watched")
    data_dir, manifests = data_dirs / place.name, filled(place)
    (manifests / "bad.yaml").write_text(text(workflow("bad", version="one")))
    with formulary_up("--watch", data_dir=data_dir, manifests=[manifests]) as up:
        yield Watched(up=up, data_dir=data_dir, manifests=manifests)


def servers_on(directory: Path) -> list[psutil.Process]:
    """The PostgreSQL processes that work in a data directory, postmasters first."""
    cluster = str(directory.resolve() / "cluster")
    found = [
        process
        for process in psutil.process_iter(["name", "cwd"])
        if process.info == {"name": "postgres", "cwd": cluster}
    ]
    return sorted(found, key=lambda process: process.create_time())


def names(up: Up) -> set[str]:
    listing = httpx2.get(f"{up.url}/api/v1/workflows?limit=200", timeout=SECONDS).raise_for_status().json()
    return {listed["workflow_id"] for listed in listing["workflows"]}


def output(up: Up) -> str:
    return "".join(up.output)


@pytest.mark.smoke
@pytest.mark.parametrize("order", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_it_serves_and_a_signal_stops_everything_it_started(loaded: Loaded, order: signal.Signals) -> None:
    with formulary_up(data_dir=loaded.data_dir, manifests=[loaded.manifests]) as up:
        assert names(up) == {"a"}
        edges = f"MCP {up.url}/mcp, REST {up.url}/api/v1, console {up.url}/console"
        assert f"Formulary is ready: {edges}, 1 workflow, 1 context, mode hybrid\n" in up.output
        assert servers_on(loaded.data_dir)
        up.process.send_signal(order)
        assert up.process.wait(SECONDS) == 0
        assert not servers_on(loaded.data_dir)
    assert "Traceback" not in output(up)
    assert "embedding: 1 of 1\n" in loaded.output
    assert "embedding" not in output(up), "a warm start embeds nothing again"


def test_an_invalid_file_is_reported_and_the_others_are_served(watched: Watched) -> None:
    assert names(watched.up) == {"a"}
    assert any(line.startswith("rejected: bad.yaml: spec.version: must be") for line in watched.up.output)
    assert any(line.startswith("not served: 1 document; formulary validate shows") for line in watched.up.output)


def test_after_sigkill_nothing_is_left_and_the_next_start_has_everything(data_dir: Path, manifests: Path) -> None:
    with formulary_up(data_dir=data_dir, manifests=[manifests]) as killed:
        killed.process.kill()
        killed.process.wait(SECONDS)
        wait_until(lambda: not servers_on(data_dir), what="PostgreSQL to follow its owner")
    with formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
        assert names(up) == {"a"}
        assert "embedding" not in output(up)


@pytest.mark.smoke
def test_a_postgres_that_is_killed_is_started_again(watched: Watched) -> None:
    up = watched.up
    servers_on(watched.data_dir)[0].kill()
    wait_until(lambda: "postgres_restarted" in output(up), what="the restart")
    (reported,) = [line for line in up.output if "postgres_restarted" in line]
    assert json.loads(reported)["level"] == "warning"
    wait_until(lambda: httpx2.get(f"{up.url}/readyz", timeout=SECONDS).status_code == 200, what="readiness")
    assert names(up) == {"a"}


def test_a_second_one_on_the_same_port_or_data_is_told_so(watched: Watched) -> None:
    up, data_dir = watched.up, watched.data_dir
    port = up.url.rpartition(":")[2]
    same_port = formulary_now("up", "--port", port, "--data-dir", str(data_dir.with_name("other")))
    assert (same_port.code, same_port.out) == (3, "")
    assert same_port.err == (
        f"formulary: port {port} on 127.0.0.1 is in use; choose another with --port or FORMULARY_PORT, "
        f"or stop process {up.process.pid}\n"
    )
    same_data = formulary_now("up", "--port", "0", "--data-dir", str(data_dir))
    assert same_data.code == 3
    assert f"is in use by process {up.process.pid} (formulary up); stop it" in same_data.err
    assert names(up) == {"a"}


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 is open to other machines and there is no authentication"),
        (["--host", "0.0.0.0", "--insecure", "--cluster"], "--cluster reads with your rights, and 0.0.0.0 is open"),
        (["--host", "192.0.2.1", "--insecure", "--port", "1234"], "port 1234 on 192.0.2.1 cannot be used"),
        (["--manifests", "/nowhere", "--port", "0"], "manifests directory /nowhere cannot be read: No such file"),
        (["--database-url", "postgresql://127.0.0.1:9/x", "--port", "0"], "database 'x' on 127.0.0.1 does not answer"),
    ],
)
def test_a_start_that_cannot_be_is_refused_in_one_line(data_dir: Path, arguments: list[str], saying: str) -> None:
    done = formulary_now("up", "--data-dir", str(data_dir), *arguments)
    assert done.code == 3
    assert done.err.splitlines()[-1].startswith(f"formulary: {saying}")
    assert "Traceback" not in done.err
    assert not servers_on(data_dir)


def test_a_setting_that_breaks_a_rule_is_named() -> None:
    by_flag = formulary_now("up", "--port", "70000")
    assert (by_flag.code, by_flag.err) == (
        2,
        "formulary: --port is 70000: input should be less than or equal to 65535\n",
    )
    alone = formulary_now("up", "--context", "staging")
    assert (alone.code, "which --cluster reads; add it" in alone.err) == (2, True)
    by_variable = formulary_now("up", FORMULARY_REQUEST_CONTEXT="maybe")
    assert by_variable.code == 2
    assert by_variable.err.startswith("formulary: FORMULARY_REQUEST_CONTEXT is 'maybe': input should be 'required'")
    by_both = formulary_now("up", FORMULARY_CALLS_AT_ONCE="12", FORMULARY_POOL_SIZE="12")
    assert (by_both.code, by_both.err) == (
        2,
        "formulary: FORMULARY_CALLS_AT_ONCE is '12': calls at once must be fewer than the 12 connections of "
        "FORMULARY_POOL_SIZE; lower them, or raise FORMULARY_POOL_SIZE\n",
    )


def test_a_model_that_is_missing_leaves_lexical_search(data_dir: Path, manifests: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORMULARY_EMBEDDING_MODEL", "/nowhere")
        with formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
            assert "mode lexical" in output(up)
            found = httpx2.post(f"{up.url}/api/v1/workflows/search", json={"query": "restarts"}, timeout=SECONDS).json()
    assert (found["search_mode"], [hit["workflow_id"] for hit in found["workflows"]]) == ("lexical", ["a"])


def test_it_can_be_asked_while_it_loads_and_serves_the_starter_catalog_without_manifests(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [FORMULARY, "up", "--port", str(port), "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        wait_until(lambda: accepts("127.0.0.1", port), what="the port")
        ready, listing = httpx2.get(f"{url}/readyz", timeout=SECONDS), httpx2.get(f"{url}/api/v1/workflows")
        assert (ready.status_code, ready.json()["status"], listing.status_code) == (503, "starting", 503)
        assert process.stdout.readline().startswith("Formulary is ready")
        assert httpx2.get(f"{url}/readyz", timeout=SECONDS).json()["status"] == "ready"
        assert len(names(Up(process=process, url=url))) == 118
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def test_a_load_that_cannot_be_ends_it_in_one_line(data_dir: Path, manifests: Path) -> None:
    process = subprocess.Popen(
        [FORMULARY, "up", "--port", "0", "--data-dir", str(data_dir), "--manifests", str(manifests)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == f"starting PostgreSQL in {data_dir}\n"
    manifests.rename(manifests.with_name("moved"))
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (3, "")
    assert err.splitlines()[-1].startswith(f"formulary: manifests directory {manifests} cannot be read")
    assert "Traceback" not in err
    assert not servers_on(data_dir)


@pytest.mark.parametrize("moment", ["starting PostgreSQL", pytest.param("embedding", marks=pytest.mark.long)])
def test_ctrl_c_while_it_starts_stops_it_cleanly(data_dir: Path, starter_catalog: Path, moment: str) -> None:
    process = subprocess.Popen(
        [FORMULARY, "up", "--port", "0", "--data-dir", str(data_dir), "--manifests", str(starter_catalog)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(moment):
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, "it was never ready"
    assert "Traceback" not in rest
    assert not servers_on(data_dir)


def test_a_second_signal_does_not_wait(loaded: Loaded) -> None:
    with formulary_up(data_dir=loaded.data_dir, manifests=[loaded.manifests]) as up:
        host, port = up.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as unfinished:
            unfinished.sendall(
                b"POST /api/v1/workflows/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"
            )
            up.process.send_signal(signal.SIGINT)
            wait_until(lambda: not accepts(host, int(port)), what="it to stop accepting")
            started = time.monotonic()
            up.process.send_signal(signal.SIGINT)
            up.process.wait(SECONDS)
            assert time.monotonic() - started < 5
    assert "Traceback" not in output(up)


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def test_the_watch_follows_files_that_are_added_changed_broken_and_removed(watched: Watched) -> None:
    up, file = watched.up, watched.manifests / "b.yaml"
    file.write_text(text(workflow("b")))
    wait_until(lambda: names(up) == {"a", "b"}, what="the added file")
    file.write_text(text(workflow("b", version="1.1.0", title="Second try")))
    wait_until(lambda: title_of(up, "b") == "Second try", what="the changed file")
    file.write_text("a: [")
    wait_until(lambda: "b.yaml: line 2: did not find" in output(up), what="the broken file to be reported")
    assert names(up) == {"a", "b"}
    file.write_text(text(workflow("b", version="1.1.0", title="Second try")))
    wait_until(lambda: "no_longer_rejected" in output(up), what="the mended file to be reported")
    file.unlink()
    wait_until(lambda: names(up) == {"a"}, what="the removed file")


def title_of(up: Up, name: str) -> str:
    details = httpx2.get(f"{up.url}/api/v1/workflows/{name}", timeout=SECONDS).json()
    return str(details["title"])


def test_read_commands_reach_it_by_its_data_directory_and_start_it_when_nobody_does(loaded: Loaded) -> None:
    stopped = formulary_now("list", "--data-dir", str(loaded.data_dir))
    assert (loaded.listed.code, loaded.listed.out) == (0, stopped.out)
    assert stopped.err == answer_of(str(loaded.data_dir))
    assert not servers_on(loaded.data_dir)


def test_serve_needs_a_database(empty_database: str) -> None:
    assert formulary_now("serve").err == "formulary: name a database with --database-url or FORMULARY_DATABASE_URL\n"
    elsewhere = urlsplit(empty_database)._replace(path="/missing").geturl()
    missing = formulary_now("serve", "--port", "0", FORMULARY_DATABASE_URL=elsewhere)
    assert missing.code == 3
    assert "does not exist; create it (createdb)" in missing.err


def test_serve_waits_for_the_migration_and_then_answers_for_an_incident(empty_database: str) -> None:
    asyncio.run(create_roles(empty_database))
    with server(dsn=empty_database, request_context="required") as served:
        served.start()
        wait_until(lambda: bool(served.events("waiting_for_database")), what="the first look at the database")
        (waiting,) = served.events("waiting_for_database")
        assert "run `formulary migrate`" in waiting["reason"]
        assert httpx2.get(f"{served.url}/healthz", timeout=SECONDS).status_code == 200
        state = httpx2.get(f"{served.url}/readyz", timeout=SECONDS)
        assert state.status_code == 503
        assert state.json() == {
            "status": "starting",
            "database": "unavailable",
            "catalog": "loading",
            "model": "unavailable",
            "mode": "lexical",
            "detail": waiting["reason"],
        }
        assert httpx2.get(f"{served.url}/metrics", timeout=SECONDS).status_code == 200
        early = search(served.url)
        assert early.status_code == 503
        assert early.json()["error"]["message"] == "the database cannot be used yet; retry in a few seconds"

        migrated = formulary_now("migrate", FORMULARY_DATABASE_URL=empty_database)
        assert (migrated.code, migrated.out.endswith(f"is at revision {HEAD}\n")) == (0, True)
        served.wait_ready()

        assert "detail" not in httpx2.get(f"{served.url}/readyz", timeout=SECONDS).json()
        answer = search(served.url)
        assert answer.status_code == 400
        assert "answers only for an incident" in answer.json()["error"]["message"]
        # A busy machine may give it a second reason meanwhile; the same one is not logged at each look.
        reasons = [event["reason"] for event in served.events("waiting_for_database")]
        assert all(reason != following for reason, following in pairwise(reasons)), reasons
        assert served.stop() == 0


def test_serve_waits_for_a_database_that_does_not_answer_and_can_be_stopped_meanwhile() -> None:
    with server(dsn=f"postgresql://user@127.0.0.1:{free_port()}/formulary") as served:
        served.start()
        wait_until(lambda: bool(served.events("waiting_for_database")), what="the first look at the database")
        state = httpx2.get(f"{served.url}/readyz", timeout=SECONDS)
        assert (state.status_code, state.json()["status"]) == (503, "starting")
        assert "does not answer" in state.json()["detail"]
        assert search(served.url).status_code == 503
        assert (served.crashes(), served.stop()) == ([], 0)


def search(url: str) -> httpx2.Response:
    return httpx2.post(f"{url}/api/v1/workflows/search", json={"query": "x"}, timeout=SECONDS)
