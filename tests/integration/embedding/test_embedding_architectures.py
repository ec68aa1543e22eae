"""Models other than the bundled one: the network built from their weights, their export, and sentence-transformers."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from formulary_catalog.embedding import load_embedder
from formulary_catalog.embedding.architecture import Architecture, UnsupportedArchitecture
from formulary_catalog.embedding.cache import CachedExport
from formulary_catalog.embedding.local import load_local
from formulary_catalog.embedding.model import BASE, BUNDLED, ModelSource, locate
from formulary_catalog.errors import EmbedderUnavailable
from support.models import published_model
from support.tiny_models import TEXTS, expected, make_all

BERT_FAMILY = ("mean", "first", "max", "adapted", "normalised", "lowercase")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Small models with random weights; each directory is one, with the reference's vectors of `TEXTS`."""
    directory = make_all(tmp_path_factory.mktemp("models"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def roberta(models: Path) -> ModelSource:
    """A model outside the BERT family."""
    return locate(str(models / "roberta"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("cache")
    yield directory
    shutil.rmtree(directory)


def export(model: Path, *, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "formulary_catalog.embedding.export", f"--model={model}", f"--cache-dir={cache}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def exported(roberta: ModelSource, cache: Path) -> CachedExport:
    done = export(roberta.path, cache=cache)
    assert (done.returncode, done.stderr) == (0, "")
    found = CachedExport.of(roberta, cache_dir=cache)
    assert done.stdout.startswith(str(found.directory))
    return found


@pytest.mark.parametrize("name", BERT_FAMILY)
def test_a_network_built_from_weights_gives_the_vectors_of_the_reference(models: Path, name: str) -> None:
    vectors = load_local(locate(str(models / name)), precision="f32").embed_documents(TEXTS)
    cosines = np.sum(vectors.astype(np.float64) * expected(models / name), axis=1)
    assert cosines.min() >= 0.99999, TEXTS[int(cosines.argmin())]


def test_the_texts_of_these_models_differ_so_that_equal_vectors_say_something(models: Path) -> None:
    for name in BERT_FAMILY:
        vectors = expected(models / name)
        assert np.triu(vectors @ vectors.T, k=1).max() < 0.99, name


def test_an_adapter_belongs_to_the_identity_of_the_model(models: Path, tmp_path: Path) -> None:
    adapted = tmp_path / "adapted"
    shutil.copytree(models / "adapted", adapted)
    weights = adapted / "3_Dense" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    changed = locate(str(adapted)).id
    assert changed != locate(str(models / "adapted")).id

    weights.rename(weights.with_name("pytorch_model.bin"))
    older = locate(str(adapted)).id
    weights.with_name("pytorch_model.bin").write_bytes(content[:-1])
    assert len({changed, older, locate(str(adapted)).id}) == 3


def _set(file: str, **values: object) -> tuple[str, dict[str, object]]:
    return file, values


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("config.json", model_type="roberta"), "its model_type is roberta, not bert"),
        (_set("config.json", hidden_act="relu"), "its hidden_act is relu, not gelu"),
        (_set("config.json", position_embedding_type="relative_key"), "its position_embedding_type is relative_key"),
        (_set("config.json", is_decoder=True), "its is_decoder is True, not False"),
        (_set("tokenizer_config.json", truncation_side="left"), "its truncation_side is left, not right"),
        (
            _set("tokenizer_config.json", do_lower_case=False),
            "do_lower_case of tokenizer_config.json is False, not True",
        ),
        (_set("2_Dense/config.json", use_residual=True), "use_residual of a dense layer is True, not False"),
        (_set("2_Dense/config.json", module_input_name="token_embeddings"), "module_input_name of a dense layer"),
        (_set("1_Pooling/config.json", pooling_mode="lasttoken"), "its pooling is lasttoken"),
        (_set("1_Pooling/config.json", pooling_mode=""), "its pooling is missing"),
        (_set("2_Dense/config.json", activation_function="torch.nn.modules.activation.ReLU"), "the activation ReLU"),
    ],
)
def test_a_network_that_would_not_be_built_right_is_not_built(
    models: Path, tmp_path: Path, change: tuple[str, dict[str, object]], reason: str
) -> None:
    model = tmp_path / "changed"
    shutil.copytree(models / "adapted", model)
    file, values = change
    (model / file).write_text(json.dumps(json.loads((model / file).read_text()) | values))
    with pytest.raises(UnsupportedArchitecture) as refusal:
        Architecture.of(model)
    assert reason in str(refusal.value)


def test_a_network_with_a_module_of_another_kind_is_not_built(models: Path, tmp_path: Path) -> None:
    model = tmp_path / "changed"
    shutil.copytree(models / "adapted", model, ignore=shutil.ignore_patterns("*.safetensors"))
    modules = json.loads((model / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.LSTM"
    (model / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedArchitecture, match="it has a module LSTM"):
        Architecture.of(model)


def test_a_model_without_one_of_its_tensors_is_refused_in_one_line(models: Path, tmp_path: Path) -> None:
    model = tmp_path / "deep"
    shutil.copytree(models / "mean", model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    reason = r"as its weights have no tensor encoder\.layer\.2\.output\.LayerNorm\.weight"
    with pytest.raises(EmbedderUnavailable, match=reason) as failure:
        load_embedder(str(model))
    assert "\n" not in str(failure.value)


def test_a_model_outside_the_family_says_both_ways_to_serve_it(roberta: ModelSource, tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable) as refusal:
        load_embedder(str(roberta.path), cache_dir=tmp_path)
    message = str(refusal.value)
    assert "its model_type is roberta, not bert" in message
    assert f"formulary_catalog.embedding.export --model {roberta.path}" in message
    assert "FORMULARY_EMBEDDING_BACKEND=sentence-transformers" in message
    assert "\n" not in message


def test_an_export_gives_the_vectors_of_the_reference(
    exported: CachedExport, roberta: ModelSource, cache: Path
) -> None:
    embedder = load_local(roberta, cache_dir=cache, precision="f32")
    assert embedder.model_id == roberta.id
    assert exported.cosine >= 0.9999
    cosines = np.sum(embedder.embed_documents(TEXTS) * expected(roberta.path), axis=1)
    assert cosines.min() >= 0.9999, TEXTS[int(cosines.argmin())]


def test_an_export_is_made_once(exported: CachedExport, roberta: ModelSource, cache: Path) -> None:
    before = (exported.directory / "model.bin").stat().st_mtime_ns
    done = export(roberta.path, cache=cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert (exported.directory / "model.bin").stat().st_mtime_ns == before


def test_a_damaged_export_is_not_served_and_is_made_again(
    exported: CachedExport, roberta: ModelSource, tmp_path: Path
) -> None:
    copy = CachedExport.of(roberta, cache_dir=tmp_path)
    shutil.copytree(exported.directory, copy.directory)
    weights = copy.directory / "model.bin"
    whole = weights.read_bytes()
    for damaged, defect in ((whole[: len(whole) // 2], "truncated"), (whole[:-9] + b"x" * 9, "corrupt")):
        weights.write_bytes(damaged)
        with pytest.raises(EmbedderUnavailable, match=rf"its model\.bin is {defect}"):
            load_embedder(str(roberta.path), cache_dir=tmp_path)
    assert export(roberta.path, cache=tmp_path).returncode == 0
    assert copy.defect() is None


def test_two_processes_that_make_the_same_export_at_once_both_get_it(roberta: ModelSource, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: export(roberta.path, cache=tmp_path), range(2)))
    assert [(each.returncode, each.stderr) for each in done] == [(0, ""), (0, "")]
    made = CachedExport.of(roberta, cache_dir=tmp_path)
    assert made.defect() is None
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == [
        made.directory.name,
        f"{made.directory.name}.lock",
    ]


def test_a_model_that_sentence_transformers_cannot_load_is_refused_in_one_line(
    roberta: ModelSource, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(roberta.path, broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"num_attention_heads": 7}))
    done = export(broken, cache=tmp_path / "cache")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("broken could not be exported: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "cache" / "models").glob("*.partial"))


def test_a_model_that_is_built_from_its_weights_needs_no_export(models: Path, tmp_path: Path) -> None:
    done = export(models / "mean", cache=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "The embedding model mean needs no export" in done.stderr


def test_a_cache_that_cannot_be_written_is_named(roberta: ModelSource, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = export(roberta.path, cache=tmp_path / "file")
    assert done.returncode == 3
    assert "must be writable" in done.stderr


def test_an_export_of_a_missing_model_is_refused_in_one_line(tmp_path: Path) -> None:
    done = export(tmp_path / "no-such-model", cache=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert len(done.stderr.strip().splitlines()) == 1


_REFERENCE_BACKEND = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from formulary_catalog.embedding import load_embedder

texts, results, *models = sys.argv[1:]
texts = json.loads(open(texts).read())
for number, model in enumerate(models):
    embedder = load_embedder(model, backend="sentence-transformers")
    with ThreadPoolExecutor(4) as pool:
        queries = list(pool.map(embedder.embed_query, texts))
    none = embedder.embed_documents([])
    np.savez(f"{results}/{number}", documents=embedder.embed_documents(texts), queries=queries, none=none)
    print(embedder.model_id)
"""
ASKED = ("OOMKilled critical", "on fire \ud83d\udd25", "lone \ud83d surrogate", *TEXTS)


@pytest.fixture(scope="module")
def prompted(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a prompt that it asks to be put before texts."""
    model = tmp_path_factory.mktemp("prompted") / "model"
    shutil.copytree(models / "mean", model)
    prompts = {"prompts": {"query": "find a remedy for this: "}, "default_prompt_name": "query"}
    (model / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return model


@pytest.fixture(scope="module")
def second_backend(
    roberta: ModelSource, prompted: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, "np.lib.npyio.NpzFile"]:
    """What the second backend makes of `ASKED`, by model; in a process of its own, which imports torch once for all."""
    models = [str(roberta.path), str(published_model()), BUNDLED, str(prompted)]
    results = tmp_path_factory.mktemp("results")
    asked = results / "texts.json"
    asked.write_text(json.dumps(ASKED))
    command = [sys.executable, "-c", _REFERENCE_BACKEND, str(asked), str(results), *models]
    child = subprocess.run(
        command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=240
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.split() == [locate(model).id for model in models]
    return {model: np.load(results / f"{number}.npz") for number, model in enumerate(models)}


def test_the_backend_sentence_transformers_serves_a_model_outside_the_family(
    roberta: ModelSource, second_backend: dict[str, "np.lib.npyio.NpzFile"]
) -> None:
    vectors = second_backend[str(roberta.path)]
    for kind in ("documents", "queries"):
        assert vectors[kind].dtype == np.float32
        assert np.sum(vectors[kind][-len(TEXTS) :] * expected(roberta.path), axis=1).min() >= 0.999999
    assert vectors["none"].shape == (0, 384)


@pytest.mark.parametrize(("model", "served"), [(BASE, str(published_model())), (BUNDLED, BUNDLED)])
def test_both_backends_give_a_bundled_model_the_same_vectors(
    second_backend: dict[str, "np.lib.npyio.NpzFile"], model: str, served: str
) -> None:
    own = load_local(locate(model), precision="f32").embed_documents(ASKED)
    assert np.sum(own * second_backend[served]["documents"], axis=1).min() >= 0.999999


def test_no_backend_adds_the_default_prompt_of_a_model(
    prompted: Path, second_backend: dict[str, "np.lib.npyio.NpzFile"]
) -> None:
    own = load_local(locate(str(prompted)), precision="f32").embed_documents(ASKED)
    assert np.sum(own * second_backend[str(prompted)]["documents"], axis=1).min() >= 0.99999


def test_a_backend_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedderUnavailable, match=r"install formulary\[sentence-transformers\]"):
        load_embedder(backend="sentence-transformers")
