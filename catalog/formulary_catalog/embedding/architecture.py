"""Reads a model's configuration: the parts of its network that `graph` builds, or why it cannot.

The directory has the layout of sentence-transformers: `modules.json` lists the modules, each has a `config.json`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from formulary_catalog.embedding.weights import WEIGHTS_FILE, Weights


class UnsupportedArchitecture(Exception):
    """No graph can be built for this model. The message is the reason, as part of a sentence."""


class Pooling(StrEnum):
    """How the vectors of the tokens become the vector of the text."""

    MEAN = "pooling_mode_mean_tokens"
    FIRST = "pooling_mode_cls_token"
    MAX = "pooling_mode_max_tokens"


class Activation(StrEnum):
    """The function behind a dense layer, by the last part of its name in torch."""

    NONE = "Identity"
    TANH = "Tanh"


@dataclass(frozen=True)
class Normalization:
    """Scales the vector of the text to unit length."""


@dataclass(frozen=True)
class Dense:
    """A linear layer behind the pooling, such as a trained adapter."""

    file: Path
    """Its weights: `linear.weight` and perhaps `linear.bias`."""
    activation: Activation


@dataclass(frozen=True)
class Architecture:
    """An encoder of the BERT family with a pooling and any number of layers behind it."""

    layers: int
    heads: int
    hidden_size: int
    norm_epsilon: float
    pooling: Pooling
    head: tuple[Dense | Normalization, ...]
    """What follows the pooling, in this order. The result is normalised in any case."""
    max_tokens: int
    """Texts are cut to so many tokens, as the reference implementation does."""
    lowercase: bool
    """Texts are lowercased before tokenization."""

    @classmethod
    def of(cls, directory: Path) -> "Architecture":
        """Read it. Raises `UnsupportedArchitecture`."""
        try:
            return _architecture(directory)
        except FileNotFoundError as error:
            name = Path(error.filename).relative_to(directory)
            raise UnsupportedArchitecture(f"it has no {name}") from error
        except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise UnsupportedArchitecture(
                f"its configuration is incomplete or damaged ({type(error).__name__})"
            ) from error


def _architecture(directory: Path) -> Architecture:
    transformer, pooling, *others = _modules(directory)
    _expect("module", transformer[0], "Transformer")
    _expect("directory of its Transformer", transformer[1], "")
    _expect("module", pooling[0], "Pooling")
    config = _json(directory / "config.json")
    wrapper_file, tokenizer = directory / "sentence_bert_config.json", _json(directory / "tokenizer_config.json")
    wrapper = _json(wrapper_file) if wrapper_file.is_file() else {}
    _expect("model_type", config["model_type"], "bert")
    _expect("hidden_act", config["hidden_act"], "gelu")
    _expect("position_embedding_type", config.get("position_embedding_type", "absolute"), "absolute")
    _expect("is_decoder", config.get("is_decoder", False), False)
    _expect("truncation_side", tokenizer.get("truncation_side", "right"), "right")
    _check_normalizer(_json(directory / "tokenizer.json"), tokenizer)
    _check_tensors(Weights(directory / WEIGHTS_FILE), layers=config["num_hidden_layers"])
    return Architecture(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        hidden_size=config["hidden_size"],
        norm_epsilon=config["layer_norm_eps"],
        pooling=_pooling(_json(directory / pooling[1] / "config.json")),
        head=tuple(Normalization() if kind == "Normalize" else _dense(directory / path) for kind, path in others),
        max_tokens=_max_tokens(wrapper, tokenizer, config),
        lowercase=bool(wrapper.get("do_lower_case")),
    )


def _modules(directory: Path) -> list[tuple[str, str]]:
    """Kind and path of each module."""
    modules = [(module["type"].rpartition(".")[2], module["path"]) for module in _json(directory / "modules.json")]
    for kind, _ in modules:
        if kind not in ("Transformer", "Pooling", "Dense", "Normalize"):
            raise UnsupportedArchitecture(f"it has a module {kind}")
    if len(modules) < 2:
        raise UnsupportedArchitecture("it has no pooling")
    return modules


def _check_normalizer(tokenizer: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Sentence-transformers follows the settings where they differ from the tokenizer's own file."""
    own = tokenizer.get("normalizer") or {}
    if own.get("type") != "BertNormalizer":
        return
    for setting, name in (
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
        ("tokenize_chinese_chars", "handle_chinese_chars"),
    ):
        if setting in settings:
            _expect(f"{setting} of tokenizer_config.json", settings[setting], own.get(name))


def _check_tensors(weights: Weights, *, layers: int) -> None:
    for name in ("embeddings.LayerNorm.weight", f"encoder.layer.{layers - 1}.output.LayerNorm.weight"):
        if name not in weights:
            raise UnsupportedArchitecture(f"its weights have no tensor {name}")
    if weights.unsupported_types:
        raise UnsupportedArchitecture(f"its weights are of the type {' and '.join(weights.unsupported_types)}")


def _max_tokens(wrapper: Mapping[str, Any], tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """As sentence-transformers decides it: its own limit, else the tokenizer's, never beyond the positions."""
    positions = int(config["max_position_embeddings"])
    limit = wrapper.get("max_seq_length") or tokenizer.get("model_max_length")
    return min(int(limit or positions), positions)


def _pooling(config: Mapping[str, Any]) -> Pooling:
    modes = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    if named := config.get("pooling_mode"):  # since sentence-transformers 5.5
        modes = [{"mean": Pooling.MEAN, "cls": Pooling.FIRST, "max": Pooling.MAX}.get(named, str(named))]
    if len(modes) != 1 or modes[0] not in list(Pooling):
        raise UnsupportedArchitecture(f"its pooling is {' and '.join(modes) or 'missing'}")
    return Pooling(modes[0])


def _dense(directory: Path) -> Dense:
    config = _json(directory / "config.json")
    for field in ("module_input_name", "module_output_name"):
        _expect(f"{field} of a dense layer", config.get(field) or "sentence_embedding", "sentence_embedding")
    _expect("use_residual of a dense layer", config.get("use_residual") or False, False)
    name = config.get("activation_function", Activation.TANH).rpartition(".")[2]
    if name not in list(Activation):
        raise UnsupportedArchitecture(f"a dense layer has the activation {name}")
    if not (directory / WEIGHTS_FILE).is_file():
        raise UnsupportedArchitecture(f"a dense layer has no {WEIGHTS_FILE}")
    return Dense(file=directory / WEIGHTS_FILE, activation=Activation(name))


def _expect(field: str, value: object, expected: object) -> None:
    if value != expected:
        raise UnsupportedArchitecture(f"its {field} is {value}, not {expected}")


def _json(file: Path) -> Any:
    return json.loads(file.read_bytes())
