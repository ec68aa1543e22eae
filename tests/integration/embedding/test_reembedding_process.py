"""`formulary reembed` as people run it: a real process, a real model, killed and run again."""

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx2
import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import locate
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import Models, ModelStore
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.commands import formulary, formulary_now
from support.filling import fill
from support.manifest import text, workflow
from support.models import other_model
from support.process import FORMULARY, formulary_up
from support.waiting import wait_until

MANY = 200
LONG = "The rollout is stuck because the image cannot be pulled from the registry. " * 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model than the bundled one."""
    return other_model(tmp_path_factory.mktemp("models") / "other")


@pytest.fixture
async def models(writing: Database, workflows: CatalogWriter, embedder: Embedder) -> ModelStore:
    """The models of a catalog that is served with the bundled one; some of its texts take their time."""
    store = ModelStore(writing)
    await store.adopt(embedder.model_id, source="bundled")
    entries = [workflow(f"w{number:03}", what=f"{number} {LONG if number % 2 else ''}") for number in range(MANY)]
    await fill(workflows, entries)
    await writing.execute(  # as if they had been embedded: by whom they are served is what matters here
        "insert into embedding select text_hash, $1, array_fill(0.05, array[384])::vector from workflow_version",
        embedder.model_id,
    )
    await writing.execute(
        "update workflow_search set model_id = $1, emb = array_fill(0.05, array[384])::vector", embedder.model_id
    )
    return store


@contextmanager
def reembedding(dsn: str, model: Path, *, notice: int = 0) -> Iterator[subprocess.Popen[str]]:
    """The command, running; it is ended with the block."""
    command = [FORMULARY, "reembed", "--to", str(model), "--database-url", dsn, "--notice", str(notice)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def until_prepared(models: ModelStore, *, at_least: int) -> Models:
    """The models once so many workflows have a vector of the new one."""
    for _ in range(6000):
        now = await models.models()
        if now.preparing is not None and now.preparing.done >= at_least:
            return now
        await asyncio.sleep(0.02)
    raise AssertionError(f"{at_least} workflows were not embedded in time")


async def doctor(dsn: str) -> dict[str, tuple[str, str]]:
    """What `formulary doctor` finds amiss: the detail and the way out by name."""
    found = await formulary("doctor", "--json", "--database-url", dsn, "--url", "http://127.0.0.1:9")
    return {
        check["name"]: (check["detail"], check["way_out"])
        for check in json.loads(found.out)["checks"]
        if not check["ok"]
    }


@contextmanager
def asked_all_the_time(url: str) -> Iterator[list[str]]:
    """The modes of the answers to searches that follow each other for as long as the block runs."""
    modes: list[str] = []
    over = threading.Event()

    def ask() -> None:
        with httpx2.Client(base_url=url, timeout=30) as http:
            while not over.wait(0.02):
                answer = http.post("/api/v1/workflows/search", json={"query": f"restart the pods {len(modes)}"})
                modes.append(answer.raise_for_status().json()["search_mode"])

    with ThreadPoolExecutor(max_workers=1) as pool:
        asking = pool.submit(ask)
        try:
            yield modes
        finally:
            over.set()
            asking.result()


def ready(url: str) -> dict[str, str]:
    """What `/readyz` says."""
    report: dict[str, str] = httpx2.get(f"{url}/readyz", timeout=30).raise_for_status().json()
    return report


def until_used(url: str, *, model_id: str) -> None:
    """Wait until a server says that it uses the model, and prepares no other."""
    wait_until(
        lambda: ready(url)["model"] == model_id and "reembedding" not in ready(url),
        what=f"{model_id} to be used",
        seconds=120,
    )


async def served_models(dsn: str) -> dict[str | None, int]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("select model_id, count(*) from formulary.workflow_search group by model_id")
        return {row[0]: row[1] for row in rows}
    finally:
        await connection.close()


async def test_killed_it_leaves_the_old_vectors_served_and_run_again_it_finishes_the_rest(
    database: str, models: ModelStore, model: Path, embedder: Embedder
) -> None:
    with reembedding(database, model) as process:
        before = await until_prepared(models, at_least=64)
        process.send_signal(signal.SIGKILL)
        assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL
    left = (await models.models()).preparing
    assert before.preparing is not None
    assert left is not None
    assert before.preparing.done <= left.done < MANY
    assert await served_models(database) == {embedder.model_id: MANY}

    other = locate(str(model)).id
    amiss = await doctor(database)
    assert amiss["re-embedding"][0] == f"{other}: {left.done} of {MANY} workflows"
    assert amiss["re-embedding"][1].startswith("nobody works on it: `formulary reembed` goes on with it")

    arguments = ("--to", str(model), "--database-url", database, "--notice", "0", "--json")
    finished = await formulary("reembed", *arguments)
    assert finished.code == 0, finished.err
    assert json.loads(finished.out) == {
        "model": other,
        "before": embedder.model_id,
        "changed": True,
        "workflows": MANY,
        "embedded": MANY - left.done,
        "unreadable": [],
        "refused": [],
        "purged": 0,
    }
    assert await served_models(database) == {other: MANY}
    after = await models.models()
    assert after.serving is not None
    assert (after.serving.model_id, after.serving.source, after.preparing) == (other, str(model), None)
    amiss = await doctor(database)
    assert set(amiss) == {"server", "model in use"}, "the setting names the model before"
    assert amiss["model in use"][0] == f"{other}, not that of the settings"


async def test_a_second_one_is_refused_while_the_first_runs_and_cancelling_ends_it(
    database: str, models: ModelStore, model: Path, embedder: Embedder
) -> None:
    with reembedding(database, model, notice=300) as process:
        await until_prepared(models, at_least=64)
        assert set(await doctor(database)) == {"server"}
        second = await formulary("reembed", "--to", "bundled", "--database-url", database)
        assert (second.code, second.out) == (3, "")
        assert "another process is re-embedding this catalog" in second.err

        unclear = await formulary("reembed", "--cancel", "--to", "bundled", "--database-url", database)
        assert unclear.code == 2
        assert "leave out --to" in unclear.err
        cancelled = await formulary("reembed", "--cancel", "--database-url", database)
        assert (cancelled.code, cancelled.out) == (0, f"{locate(str(model)).id} is no longer being prepared\n")
        output, _ = await asyncio.to_thread(process.communicate, timeout=30)
        assert process.returncode == 1
        assert "was cancelled" in output
    assert await served_models(database) == {embedder.model_id: MANY}


@pytest.mark.long
def test_a_running_server_changes_its_model_without_one_search_by_words_and_back_when_its_setting_says_so(
    data_dirs: Path, tmp_path: Path, model: Path, embedder: Embedder
) -> None:
    data_dir, manifests, other = data_dirs / tmp_path.name, tmp_path / "manifests", locate(str(model)).id
    manifests.mkdir()
    (manifests / "all.yaml").write_text(text(*(workflow(f"w{number}") for number in range(40))))
    with formulary_up(data_dir=data_dir, manifests=[manifests]) as up, asked_all_the_time(up.url) as modes:
        assert ready(up.url)["model"] == embedder.model_id
        arguments = ("--to", str(model), "--data-dir", str(data_dir), "--notice", "30")
        changed = formulary_now("reembed", *arguments)
        assert changed.code == 0, changed.err
        assert changed.out.startswith(f"Searches rank by {other}, before by {embedder.model_id}: 40 workflows")
        until_used(up.url, model_id=other)
        assert set(modes) == {"hybrid"}

    # The setting is that of the first model still.
    with formulary_up(data_dir=data_dir, manifests=[manifests]) as up, asked_all_the_time(up.url) as modes:
        assert ready(up.url)["model"] == other
        until_used(up.url, model_id=embedder.model_id)
        assert "reembedding" not in ready(up.url)
        assert set(modes) == {"hybrid"}


def test_a_model_that_is_not_there_is_refused_and_nothing_changes(database: str, tmp_path: Path) -> None:
    refused = formulary_now("reembed", "--to", str(tmp_path / "none"), "--database-url", database)
    assert refused.code == 3
    assert "is not a directory" in refused.err
