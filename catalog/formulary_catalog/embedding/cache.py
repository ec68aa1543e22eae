"""The directory that holds a model's export: what is in it, whether it is intact, who may write it."""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

from formulary_catalog.embedding.model import ModelSource
from formulary_catalog.errors import EmbedderUnavailable

MODEL_FILE = "model.xml"
WEIGHTS_FILE = "model.bin"
TOKENIZER_FILE = "tokenizer.json"

# Part of the directory's name: raise it when exports made before must no longer be used.
_FORMAT = 3
_MANIFEST_FILE = "manifest.json"
_FILES = (MODEL_FILE, WEIGHTS_FILE, TOKENIZER_FILE)


@dataclass(frozen=True)
class CachedExport:
    """One model's export, `<cache>/models/<name>-<revision>-<format>/`, present or not."""

    model_id: str
    directory: Path

    @classmethod
    def of(cls, source: ModelSource, *, cache_dir: Path | None = None) -> "CachedExport":
        """The export of this model in `cache_dir`, by default the user's cache directory.

        Raises:
            EmbedderUnavailable: our user has no home directory, and so no cache directory.
        """
        try:
            root = cache_dir if cache_dir is not None else Path(user_cache_dir("formulary")).expanduser()
        except RuntimeError as error:
            raise EmbedderUnavailable(
                f"User id {os.geteuid()} has no home directory; set HOME or FORMULARY_MODEL_CACHE_DIR."
            ) from error
        name = re.sub(r"[^\w.-]+", "--", source.name)
        directory = root.resolve() / "models" / f"{name}-{source.revision}-{_FORMAT}"
        return cls(model_id=source.id, directory=directory)

    def defect(self) -> str | None:
        """Why this export cannot be used, in a few words; None if it is present and intact.

        Reads every byte (about 0.05 s for 44 MiB): damaged weights load without a word.
        """
        try:
            return self._defect()
        except OSError as error:
            return f"it cannot be read ({error.strerror})"

    @property
    def cosine(self) -> float:
        """The least cosine to the reference implementation, measured when the export was made."""
        return float(self._manifest()["cosine"])

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Become the only writer of this export, waiting for another one, with an empty directory to fill.

        What is in that directory when the block ends is not the export until `publish` has been called.
        The lock is the kernel's: it goes with the process, however that ends.
        """
        partial = self.directory.with_name(f"{self.directory.name}.partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        with self.directory.with_name(f"{self.directory.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                yield partial
            finally:
                shutil.rmtree(partial, ignore_errors=True)

    def publish(self, partial: Path, *, cosine: float) -> None:
        """Put the finished files in place of a missing or broken export, all at once."""
        files = {name: {"size": (partial / name).stat().st_size, "sha256": _sha256(partial / name)} for name in _FILES}
        manifest = {"model_id": self.model_id, "cosine": cosine, "files": files}
        (partial / _MANIFEST_FILE).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        if self.directory.exists():
            shutil.rmtree(self.directory)
        partial.rename(self.directory)

    def _defect(self) -> str | None:
        try:
            manifest = self._manifest()
            recorded = {name: (manifest["files"][name]["size"], manifest["files"][name]["sha256"]) for name in _FILES}
            float(manifest["cosine"])
            if manifest["model_id"] != self.model_id:
                return "it is of another model"
        except FileNotFoundError:
            return "it does not exist"
        except (ValueError, TypeError, LookupError):
            return f"its {_MANIFEST_FILE} is damaged"
        for name, (size, sha256) in recorded.items():
            file = self.directory / name
            if not file.is_file():
                return f"its {name} is missing"
            if file.stat().st_size != size:
                return f"its {name} is truncated"
            if _sha256(file) != sha256:
                return f"its {name} is corrupt"
        return None

    def _manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((self.directory / _MANIFEST_FILE).read_bytes())
        return manifest


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
