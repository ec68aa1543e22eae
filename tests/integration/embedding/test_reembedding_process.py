"""`formulary reembed` as people run it: a real process, a real model, killed and run again."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx2
import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import locate
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
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
    await store.adopt(embedder.model_id)
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
def reembedding(dsn: str, model: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, running; it is ended with the block."""
    process = subprocess.Popen(
        [FORMULARY, "reembed", "--to", str(model), "--database-url", dsn],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def counted(dsn: str, table: str) -> dict[str | None, int]:
    """How many rows of a table there are by model."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(f"select model_id, count(*) from formulary.{table} group by model_id")
        return {row[0]: row[1] for row in rows}
    finally:
        await connection.close()


async def until_embedded(dsn: str, *, model_id: str) -> None:
    """Wait until some texts have a vector of the model."""
    for _ in range(6000):
        if (await counted(dsn, "embedding")).get(model_id):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nothing was embedded in time")


async def doctor(dsn: str) -> dict[str, tuple[str, str]]:
    """What `formulary doctor` finds amiss: the detail and the way out by name."""
    found = await formulary("doctor", "--json", "--database-url", dsn, "--url", "http://127.0.0.1:9")
    return {
        check["name"]: (check["detail"], check["way_out"])
        for check in json.loads(found.out)["checks"]
        if not check["ok"]
    }


def ready(url: str) -> dict[str, str]:
    """What `/readyz` says."""
    report: dict[str, str] = httpx2.get(f"{url}/readyz", timeout=30).raise_for_status().json()
    return report


async def test_killed_it_leaves_the_old_vectors_served_and_run_again_it_finishes_the_rest(
    database: str, models: ModelStore, model: Path, embedder: Embedder
) -> None:
    other = locate(str(model)).id
    with reembedding(database, model) as process:
        await until_embedded(database, model_id=other)
        second = await formulary("reembed", "--to", "bundled", "--database-url", database)
        process.send_signal(signal.SIGKILL)
        assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL
    assert (second.code, second.out) == (3, "")
    assert "another process is re-embedding this catalog" in second.err
    left = (await counted(database, "embedding"))[other]
    assert await counted(database, "workflow_search") == {embedder.model_id: MANY}

    finished = await formulary("reembed", "--to", str(model), "--database-url", database, "--json")
    assert finished.code == 0, finished.err
    assert json.loads(finished.out) == {
        "model": other,
        "before": embedder.model_id,
        "changed": True,
        "workflows": MANY,
        "embedded": MANY - left,
        "unreadable": [],
        "refused": [],
        "purged": MANY,
    }
    assert await counted(database, "workflow_search") == {other: MANY}
    assert await models.serving() == other
    amiss = await doctor(database)
    assert set(amiss) == {"server", "model in use"}, "the setting names the model before"
    assert amiss["model in use"][0] == f"{other}, not that of the settings: searches rank by words alone"


def test_a_running_server_says_what_to_run_and_started_again_it_changes_its_own_catalog_to_its_setting(
    data_dirs: Path, tmp_path: Path, model: Path, embedder: Embedder
) -> None:
    data_dir, manifests, other = data_dirs / tmp_path.name, tmp_path / "manifests", locate(str(model)).id
    manifests.mkdir()
    (manifests / "all.yaml").write_text(text(workflow("only")))
    with formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
        assert ready(up.url)["model"] == embedder.model_id
        changed = formulary_now("reembed", "--to", str(model), "--data-dir", str(data_dir))
        assert changed.code == 0, changed.err
        assert changed.out.startswith(f"Searches rank by {other}, before by {embedder.model_id}: 1 workflow")
        wait_until(lambda: ready(up.url)["mode"] == "lexical", what="the server to notice", seconds=60)
        assert "`formulary reembed --to bundled`" in ready(up.url)["detail"]

    with formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
        assert (ready(up.url)["model"], ready(up.url)["mode"]) == (embedder.model_id, "hybrid")


def test_a_model_that_is_not_there_is_refused_and_nothing_changes(database: str, tmp_path: Path) -> None:
    refused = formulary_now("reembed", "--to", str(tmp_path / "none"), "--database-url", database)
    assert refused.code == 3
    assert "is not a directory" in refused.err
