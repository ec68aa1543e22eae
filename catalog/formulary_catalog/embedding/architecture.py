"""What a model's directory says of its network: the parts that `graph` builds, or why it cannot.

The directory has the layout of sentence-transformers: `modules.json` lists the modules, each has a `config.json`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


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
class Dense:
    """A linear layer behind the pooling, such as a trained adapter."""

    file: Path
    """Its weights: `linear.weight` and perhaps `linear.bias`."""
    activation: Activation


@dataclass(frozen=True)
class Architecture:
    """An encoder of the BERT family with a pooling and any number of dense layers."""

    layers: int
    heads: int
    hidden_size: int
    norm_epsilon: float
    pooling: Pooling
    dense: tuple[Dense, ...]
    max_tokens: int
    """Texts are cut to so many tokens, as the reference implementation does."""
    lowercase: bool
    """Texts are lowercased before they are taken apart."""

    @classmethod
    def of(cls, directory: Path) -> "Architecture":
        """Read it. Raises `UnsupportedArchitecture`."""
        try:
            return _architecture(directory)
        except (OSError, LookupError, TypeError, ValueError) as error:
            raise UnsupportedArchitecture(f"its configuration is incomplete ({error})") from error


def _architecture(directory: Path) -> Architecture:
    transformer, pooling, *others = _modules(directory)
    _expect("module", transformer[0], "Transformer")
    _expect("module", pooling[0], "Pooling")
    config = _json(directory / transformer[1] / "config.json")
    wrapper = _json(directory / transformer[1] / "sentence_bert_config.json")
    _expect("model_type", config["model_type"], "bert")
    _expect("hidden_act", config["hidden_act"], "gelu")
    _expect("position_embedding_type", config.get("position_embedding_type", "absolute"), "absolute")
    return Architecture(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        hidden_size=config["hidden_size"],
        norm_epsilon=config["layer_norm_eps"],
        pooling=_pooling(_json(directory / pooling[1] / "config.json")),
        dense=tuple(_dense(directory / path) for kind, path in others if kind != "Normalize"),
        max_tokens=_max_tokens(directory / transformer[1], wrapper, config),
        lowercase=bool(wrapper.get("do_lower_case")),
    )


def _modules(directory: Path) -> list[tuple[str, str]]:
    """Kind and path of each module. Normalisation is not looked at: every vector is normalised."""
    modules = [(module["type"].rpartition(".")[2], module["path"]) for module in _json(directory / "modules.json")]
    for kind, _ in modules:
        if kind not in ("Transformer", "Pooling", "Dense", "Normalize"):
            raise UnsupportedArchitecture(f"it has a module {kind}")
    if len(modules) < 2:
        raise UnsupportedArchitecture("it has no pooling")
    return modules


def _max_tokens(directory: Path, wrapper: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """As sentence-transformers decides it: its own limit, else the tokenizer's, never beyond the positions."""
    positions = int(config["max_position_embeddings"])
    limit = wrapper.get("max_seq_length") or _json(directory / "tokenizer_config.json").get("model_max_length")
    return min(int(limit or positions), positions)


def _pooling(config: Mapping[str, Any]) -> Pooling:
    modes = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    if named := config.get("pooling_mode"):  # since sentence-transformers 5.5
        modes = [{"mean": Pooling.MEAN, "cls": Pooling.FIRST, "max": Pooling.MAX}.get(named, str(named))]
    if len(modes) != 1 or modes[0] not in list(Pooling):
        raise UnsupportedArchitecture(f"its pooling is {' and '.join(modes) or 'missing'}")
    return Pooling(modes[0])


def _dense(directory: Path) -> Dense:
    name = _json(directory / "config.json").get("activation_function", Activation.TANH).rpartition(".")[2]
    if name not in list(Activation):
        raise UnsupportedArchitecture(f"a dense layer has the activation {name}")
    return Dense(file=directory / "model.safetensors", activation=Activation(name))


def _expect(field: str, value: object, expected: str) -> None:
    if value != expected:
        raise UnsupportedArchitecture(f"its {field} is {value}, not {expected}")


def _json(file: Path) -> Any:
    return json.loads(file.read_bytes())
