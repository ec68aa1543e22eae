"""Finding the model, and refusing what is not one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from formulary_catalog.embedding import model
from formulary_catalog.embedding.model import ModelSource, locate
from formulary_catalog.embedding.weights import Weights
from formulary_catalog.errors import EmbedderUnavailable
from support.models import published_model


@pytest.fixture(scope="module")
def bundled() -> ModelSource:
    return locate("bundled")


@pytest.fixture(scope="module")
def base() -> ModelSource:
    return locate("all-MiniLM-L6-v2")


@pytest.fixture
def copy(bundled: ModelSource, tmp_path: Path) -> Path:
    """The base again; its 45 MB of weights are only linked, `_replace_weights` to change them."""
    directory = tmp_path / "my-model"
    shutil.copytree(bundled.path, directory, ignore=shutil.ignore_patterns("model.safetensors"))
    (directory / "model.safetensors").symlink_to(bundled.path / "model.safetensors")
    return directory


def _replace_weights(copy: Path, content: bytes | bytearray) -> None:
    (copy / "model.safetensors").unlink()
    (copy / "model.safetensors").write_bytes(content)


def _reason(setting: str) -> str:
    with pytest.raises(EmbedderUnavailable) as failure:
        locate(setting)
    message = str(failure.value)
    assert "\n" not in message
    return message


def test_the_bundled_model_is_named_with_its_revision(bundled: ModelSource) -> None:
    assert bundled.name == "formulary-minilm"
    assert bundled.id == "formulary-minilm@5ca50d10eb62"


def test_its_base_without_the_adapter_keeps_the_id_of_earlier_releases(base: ModelSource) -> None:
    assert base.id == "all-MiniLM-L6-v2@0b40d68aaba8"


def test_the_base_has_the_revision_of_the_published_one_that_it_was_made_of(base: ModelSource) -> None:
    assert base.revision == locate(str(published_model())).revision


def test_the_adapter_changes_the_inner_matrices_of_the_upper_layers_and_nothing_else(
    bundled: ModelSource, base: ModelSource
) -> None:
    adapted, plain = Weights(*bundled.weight_files), Weights(*base.weight_files)
    with safe_open(base.path / "model.safetensors", framework="numpy") as weights:
        changed = {name for name in weights.keys() if not np.array_equal(adapted[name], plain[name])}
    assert {name.split(".")[2] for name in changed} == {"2", "3", "4", "5"}
    assert {name.split(".", 3)[3] for name in changed} == {
        "attention.self.query.weight",
        "attention.self.key.weight",
        "attention.self.value.weight",
        "attention.output.dense.weight",
        "intermediate.dense.weight",
        "output.dense.weight",
    }


@pytest.mark.parametrize("setting", ["bundled", "all-MiniLM-L6-v2"])
@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "1_Pooling/config.json"])
def test_a_damaged_bundled_model_is_refused(
    bundled: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, setting: str
) -> None:
    damaged = tmp_path / bundled.name
    shutil.copytree(bundled.path, damaged)
    content = (damaged / file).read_bytes()
    (damaged / file).write_bytes(content + b"\n" if file.endswith(".json") else content[:-1] + b"?")
    monkeypatch.setattr(model, "BUNDLED_DIRECTORY", damaged)
    assert "is damaged: its revision is" in _reason(setting)


@pytest.mark.parametrize("content", [None, b"", b"?" * 100])
def test_damaged_adapted_weights_are_refused_and_the_base_is_served_all_the_same(
    bundled: ModelSource, base: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    damaged = tmp_path / "all-MiniLM-L6-v2"
    shutil.copytree(bundled.path, damaged)
    (damaged / model.ADAPTED_WEIGHTS).unlink()
    if content is not None:
        (damaged / model.ADAPTED_WEIGHTS).write_bytes(content)
    monkeypatch.setattr(model, "BUNDLED_DIRECTORY", damaged)
    assert "install Formulary" in _reason("bundled")
    assert locate("all-MiniLM-L6-v2").id == base.id


def test_an_installation_without_the_bundled_model_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "BUNDLED_DIRECTORY", tmp_path / "all-MiniLM-L6-v2")
    assert "install Formulary from its wheel, or run `make setup`" in _reason("bundled")


def test_a_copy_elsewhere_has_the_revision_of_the_base_under_its_own_name(base: ModelSource, copy: Path) -> None:
    assert locate(str(copy)).id == f"my-model@{base.revision}"


def test_a_read_me_does_not_change_the_revision(base: ModelSource, copy: Path) -> None:
    (copy / "README.md").write_text("another text")
    assert locate(str(copy)).revision == base.revision


@pytest.mark.parametrize("file", ["tokenizer.json", "sentence_bert_config.json", "1_Pooling/config.json"])
def test_a_file_that_decides_the_vectors_changes_the_revision(base: ModelSource, copy: Path, file: str) -> None:
    with (copy / file).open("a") as content:
        content.write("\n")
    assert locate(str(copy)).revision != base.revision


def test_other_weights_of_the_same_size_change_the_revision(base: ModelSource, copy: Path) -> None:
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-1] ^= 1
    _replace_weights(copy, content)
    assert locate(str(copy)).revision != base.revision


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    assert "no-such-model' is not a directory" in _reason(str(tmp_path / "no-such-model"))


@pytest.mark.parametrize("setting", ["", "~nobody-of-that-name/model", "nul\0", "x" * 5000])
def test_a_senseless_setting_is_refused_in_one_line(setting: str) -> None:
    assert _reason(setting)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    assert "no modules.json" in _reason(str(tmp_path))


@pytest.mark.parametrize("size", [0, 7, 1000, 1_000_000])
def test_truncated_weights_are_refused(copy: Path, size: int) -> None:
    _replace_weights(copy, (copy / "model.safetensors").read_bytes()[:size])
    assert "model.safetensors is truncated or damaged" in _reason(str(copy))


def _other_dimensions(copy: Path) -> None:
    (copy / "config.json").write_text(json.dumps({"hidden_size": 768}))


def _no_json(copy: Path) -> None:
    (copy / "config.json").write_text("{")


def _no_module_list(copy: Path) -> None:
    (copy / "modules.json").write_text('{"0": "Transformer"}')


def _no_weights(copy: Path) -> None:
    (copy / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_other_dimensions, "its vectors have 768 dimensions, the catalog stores 384"),
        (_no_json, "its config.json is not valid JSON"),
        (_no_module_list, "its modules.json is not a list of modules"),
        (_no_weights, "it has no model.safetensors"),
    ],
)
def test_an_unusable_model_is_refused_with_the_reason(copy: Path, damage: Callable[[Path], None], reason: str) -> None:
    damage(copy)
    assert reason in _reason(str(copy))
