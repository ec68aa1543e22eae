"""Small models with random weights, and their vectors by sentence-transformers: `python -m support.tiny_models DIR`.

A program of its own: tests must not load torch into the process that runs OpenVINO. Each directory below DIR is a model
in the layout of sentence-transformers, with `expected.npy`, the vectors of `TEXTS`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from formulary_catalog.embedding.model import BUNDLED_DIRECTORY

TEXTS = (
    "OOMKilled critical",
    "a",
    "",
    "UPPER CASE and lower case",
    "Cordon and drain a node that is NotReady, then replace it " * 4,
    "the rollout is stuck because the image cannot be pulled " * 30,
    "Größe überschritten: naïve café, 磁盘压力 🚑",
)
DIMENSIONS = 384
# Larger weights than usual: with the usual ones all texts have nearly the same vector.
_SMALL: dict[str, Any] = {
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "num_attention_heads": 12,
    "initializer_range": 0.2,
}
_POSITIONS = 160


def make_all(directory: Path) -> Path:
    """Make them in a process of its own, in some 10 s. Raises AssertionError with what it printed if that fails."""
    command = [sys.executable, "-m", "support.tiny_models", str(directory)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "HF_HUB_OFFLINE": "1"}
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, child.stderr
    return directory


def expected(model: Path) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Unit vectors of `TEXTS`, shape (n, 384), by the reference implementation."""
    vectors: np.ndarray[Any, np.dtype[np.float32]] = np.load(model / "expected.npy")
    return vectors


def main(directory: Path) -> None:
    """Make all models."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

    torch.manual_seed(7)

    def bert(name: str, **options: Any) -> Path:
        config = BertConfig(
            vocab_size=30522, hidden_size=DIMENSIONS, max_position_embeddings=_POSITIONS, **_SMALL, **options
        )
        return _saved(BertModel(config), directory / f"{name}-encoder")

    def roberta(name: str) -> Path:
        config = RobertaConfig(
            vocab_size=30522, hidden_size=DIMENSIONS, max_position_embeddings=_POSITIONS, pad_token_id=0, **_SMALL
        )
        return _saved(RobertaModel(config), directory / f"{name}-encoder")

    def finish(name: str, encoder: Path, *, pooling: str = "mean", head: list[Any] | None = None) -> Path:
        transformer = Transformer(str(encoder))
        modules = [transformer, Pooling(DIMENSIONS, pooling_mode=pooling), *(head or [])]
        SentenceTransformer(modules=modules, device="cpu").save(str(directory / name))
        shutil.rmtree(encoder)
        return directory / name

    tanh = Dense(DIMENSIONS, 48)
    back = Dense(48, DIMENSIONS, bias=False, activation_function=torch.nn.Identity())
    finish("mean", bert("mean", layer_norm_eps=1e-6))
    finish("first", bert("first"), pooling="cls")
    finish("max", bert("max"), pooling="max")
    finish("adapted", bert("adapted"), head=[tanh, back])
    biased = Dense(DIMENSIONS, DIMENSIONS, activation_function=torch.nn.Identity())
    torch.nn.init.normal_(biased.linear.bias, std=0.02)
    finish("normalised", bert("normalised"), head=[Normalize(), biased])
    finish("roberta", roberta("roberta"))
    _lowercase(finish("lowercase", bert("lowercase")))
    for model in directory.iterdir():
        encoder = SentenceTransformer(str(model), device="cpu", local_files_only=True)
        np.save(model / "expected.npy", encoder.encode(list(TEXTS), normalize_embeddings=True))


def _saved(model: Any, directory: Path) -> Path:
    model.save_pretrained(directory)
    for file in ("tokenizer.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copy(BUNDLED_DIRECTORY / file, directory)
    settings = json.loads((BUNDLED_DIRECTORY / "tokenizer_config.json").read_text())
    (directory / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": _POSITIONS - 8}))
    return directory


def _lowercase(model: Path) -> None:
    """As older models say it: the wrapper lowercases, and its own limit of tokens counts."""
    tokenizer, settings = (
        json.loads((model / f"{name}.json").read_text()) for name in ("tokenizer", "tokenizer_config")
    )
    tokenizer["normalizer"] |= {"lowercase": False, "strip_accents": False}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    (model / "tokenizer_config.json").write_text(
        json.dumps(settings | {"do_lower_case": False, "strip_accents": False})
    )
    (model / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 64, "do_lower_case": True}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
