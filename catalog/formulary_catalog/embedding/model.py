"""Where the embedding model comes from, and the id its vectors are recorded under."""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from formulary_catalog.embedding.endpoint import EXAMPLES
from formulary_catalog.embedding.weights import WEIGHTS_FILE, Weights
from formulary_catalog.errors import EmbedderUnavailable

VECTOR_DIMENSIONS = 384
BUNDLED = "bundled"
"""The setting for the bundled model: the base with its adapter."""
BASE = "all-MiniLM-L6-v2"
"""The setting for the bundled model without its adapter, which catalogs of earlier releases are embedded with."""

BUNDLED_NAME = "formulary-minilm"
BUNDLED_DIRECTORY = Path(__file__).parent / BASE
BUNDLED_REVISIONS = {BUNDLED: "5ca50d10eb62", BASE: "0b40d68aaba8"}
ADAPTED_WEIGHTS = "adapted.safetensors"
"""In the bundled directory, the tensors that the adapter changes. `scripts/bundled_model.py` merges them."""
# Digest of weights in half precision -> digest of the published ones that they were made of. The bundled base is
# stored so, and has the revision of the published one: their vectors differ by a cosine of less than 0.000002.
_PUBLISHED_WEIGHTS = {
    "553c9ff2a4d968014fb1c66fdb6f2c9dc19b3ac2360ba58a51c69e177e55d765": (
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    )
}
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_REQUIRED_FILES = ("modules.json", "config.json", "tokenizer.json", WEIGHTS_FILE)
# Everything in a module's directory that can change a vector; read-mes and training notes cannot.
_DECIDING_FILES = (
    *_REQUIRED_FILES,
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "pytorch_model.bin",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "vocab.txt",
)


@dataclass(frozen=True)
class ModelSource:
    """A complete sentence-transformers model on disk.

    `revision` is the first 12 hex digits of a sha256 over the files that decide the vectors: the same model has the
    same revision on every machine, wherever it was found. `adapted` is a file of tensors that replace those of the
    directory, if there is one.
    """

    name: str
    revision: str
    path: Path
    adapted: Path | None = None

    @property
    def id(self) -> str:
        """Recorded with every stored vector: vectors are comparable only under the same id."""
        return f"{self.name}@{self.revision}"

    @property
    def weight_files(self) -> tuple[Path, ...]:
        """Tensors of a later file replace those of an earlier one."""
        weights = self.path / WEIGHTS_FILE
        return (weights, self.adapted) if self.adapted else (weights,)


def locate(model: str) -> ModelSource:
    """Find the model that the setting names.

    `bundled`, `all-MiniLM-L6-v2` (its base), a directory, or a hub id such as `organisation/name`.

    A hub id is resolved through the local hub cache, downloading only if `HF_HUB_OFFLINE` does not forbid it.
    Raises `EmbedderUnavailable` if nothing is there, or if it is not a complete 384-dimensional model.
    """
    try:
        name, path = _resolve(model)
        _check(path)
        adapted = path / ADAPTED_WEIGHTS if model == BUNDLED else None
        source = ModelSource(name=name, revision=_revision(path, adapted=adapted), path=path, adapted=adapted)
    except OSError as error:
        raise EmbedderUnavailable(f"Embedding model {model!r} cannot be read: {error.strerror}.") from error
    expected = BUNDLED_REVISIONS.get(model, source.revision)
    if source.revision != expected:
        raise EmbedderUnavailable(
            f"The bundled embedding model in {path} is damaged: its revision is {source.revision}, not {expected}; "
            "install Formulary again."
        )
    return source


def other_model_serves(serving: str, *, own: str, source: str) -> EmbedderUnavailable:
    """Why the model `own`, that of the settings, gives no vectors: the catalog has those of another one."""
    return EmbedderUnavailable(
        f"The catalog has vectors of the embedding model {serving}, and FORMULARY_EMBEDDING_MODEL names {own}; change "
        f"the catalog with `formulary reembed --to {source}`, or name the model of the catalog in the setting."
    )


def encodable(text: str) -> str:
    """The text as tokenizers and JSON take it: a surrogate pair becomes its character, a lone surrogate U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _resolve(model: str) -> tuple[str, Path]:
    if model in BUNDLED_REVISIONS:
        needed = BUNDLED_DIRECTORY / (ADAPTED_WEIGHTS if model == BUNDLED else WEIGHTS_FILE)
        if not needed.is_file():
            raise EmbedderUnavailable(
                "The bundled embedding model is not in this installation; install Formulary from its wheel, or run "
                "`make setup` in the source tree."
            )
        return BUNDLED_NAME if model == BUNDLED else BASE, BUNDLED_DIRECTORY
    directory = Path(os.path.expanduser(model))
    if directory.is_dir():
        return directory.resolve().name, directory.resolve()
    if _HUB_ID.fullmatch(model):
        return model, _hub_snapshot(model)
    raise EmbedderUnavailable(
        f"Embedding model {model!r} is not a directory; "
        f"give a model's directory, a hub id (organisation/name), {BUNDLED!r}, {BASE!r}, or an endpoint ({EXAMPLES})."
    )


def _hub_snapshot(hub_id: str) -> Path:
    try:
        from huggingface_hub import snapshot_download  # only hub ids pay for this import

        return Path(snapshot_download(hub_id, allow_patterns=["*.json", "*.txt", "*model.safetensors"]))
    except Exception as error:  # the hub client raises many unrelated types; each of them means "not available"
        raise EmbedderUnavailable(
            f"Embedding model {hub_id!r} is no directory here and the hub did not give it "
            f"({type(error).__name__}); download it first, or give a directory."
        ) from error


def _check(path: Path) -> None:
    for name in _REQUIRED_FILES:
        if not (path / name).is_file():
            raise _unusable(path, f"it has no {name}, so it is not a complete sentence-transformers directory")
    dimensions = _dimensions(path)
    if dimensions != VECTOR_DIMENSIONS:
        raise _unusable(path, f"its vectors have {dimensions} dimensions, the catalog stores {VECTOR_DIMENSIONS}")
    if not _weights_are_whole(path / WEIGHTS_FILE):
        raise _unusable(path, f"its {WEIGHTS_FILE} is truncated or damaged")


def _dimensions(path: Path) -> object:
    """Length of the vectors: what the last dense layer gives, or else the encoder."""
    config = _read_json(path / "config.json")
    dimensions = config.get("hidden_size") if isinstance(config, dict) else None
    for directory in _module_directories(path):
        file = path / directory / "config.json"
        module = _read_json(file) if directory and file.is_file() else {}
        dimensions = module.get("out_features", dimensions)
    return dimensions


def _weights_are_whole(weights: Path) -> bool:
    try:
        Weights(weights)
    except (ValueError, AttributeError, TypeError, LookupError):
        return False
    return True


def _revision(path: Path, *, adapted: Path | None) -> str:
    digest = hashlib.sha256()
    names = [str(name) for name in _deciding_files(path)] + ([adapted.name] if adapted else [])
    for name in names:
        with (path / name).open("rb") as content:
            checksum = hashlib.file_digest(content, "sha256").hexdigest()
        digest.update(f"{name} {_PUBLISHED_WEIGHTS.get(checksum, checksum)}\n".encode())
    return digest.hexdigest()[:12]


def _deciding_files(path: Path) -> list[PurePosixPath]:
    candidates = {
        PurePosixPath(directory, name) for directory in ("", *_module_directories(path)) for name in _DECIDING_FILES
    }
    return sorted(name for name in candidates if (path / name).is_file())


def _module_directories(path: Path) -> list[str]:
    modules = _read_json(path / "modules.json")
    try:
        return [str(module["path"]) for module in modules]
    except (TypeError, LookupError) as error:
        raise _unusable(path, "its modules.json is not a list of modules with a path") from error


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except ValueError as error:
        raise _unusable(file.parent, f"its {file.name} is not valid JSON") from error


def _unusable(path: Path, reason: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"The embedding model in {path} cannot be used: {reason}; restore or replace it.")
