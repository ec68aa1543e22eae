"""What an embedder is, and how the process gets one."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from formulary_catalog.embedding.cache import CachedExport
from formulary_catalog.embedding.endpoint import Endpoint, is_remote
from formulary_catalog.embedding.model import BUNDLED, ModelSource, locate
from formulary_catalog.errors import EmbedderUnavailable

QUERY_SECONDS = 0.3
"""How long a query waits for a remote model, unless the settings say otherwise."""

PATIENCE_SECONDS = 20.0
"""How long documents are asked for again while a remote model fails. A thread that waits for an endpoint cannot be
interrupted: a process that is told to stop waits for it."""

_EXPORT_SECONDS = 600.0


class Embedder(Protocol):
    """Turns text into unit vectors of 384 float32. Synchronous and thread-safe: call it in a worker thread."""

    @property
    def model_id(self) -> str:
        """`name@revision`: vectors are comparable only under the same id."""

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (n, 384), read-only, in the order of the texts.

        Raises `TextsRefused` if the model does not take one of them, `EmbedderUnavailable` if it fails.
        """

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """The vector of shape (384,), read-only. Raises `EmbedderUnavailable` if the model fails."""


def load_embedder(
    model: str = BUNDLED,
    *,
    cache_dir: Path | None = None,
    api_key: str = "",
    query_seconds: float = QUERY_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Embedder:
    """The embedder for `bundled`, a model's directory or a hub id, from its cached export; or for an endpoint.

    A missing or damaged export is made first, in a child process, so that this one never loads torch (DESIGN
    section 1: in-process embedding). `cache_dir` replaces the user's cache directory. Blocks for about 0.5 s,
    or some 15 s if the export has to be made. An endpoint is asked who it is, with `api_key` if there is one; a query
    waits for it `query_seconds`, and documents are asked for again for `patience_seconds`; with 0 there is one attempt.
    Raises `EmbedderUnavailable`, whatever goes wrong.
    """
    if is_remote(model):
        # Imported here, like the other one below: who runs the model itself needs no HTTP client.
        from formulary_catalog.embedding.remote import RemoteEmbedder

        return RemoteEmbedder(
            Endpoint.parse(model), api_key=api_key, query_seconds=query_seconds, patience_seconds=patience_seconds
        )
    source = locate(model)
    export = CachedExport.of(source, cache_dir=cache_dir)
    if export.defect() is not None:
        _make_export(model=model, source=source, cache_dir=cache_dir)
        if (defect := export.defect()) is not None:
            raise EmbedderUnavailable(
                f"The export of {source.name} in {export.directory} cannot be used: {defect}; delete it and try again."
            )

    # Imported here: this takes 0.2 s, and whoever only names the protocol should not pay for it.
    from formulary_catalog.embedding.local import LocalEmbedder

    return LocalEmbedder(export.directory, model_id=source.id)


def _make_export(*, model: str, source: ModelSource, cache_dir: Path | None) -> None:
    command = [sys.executable, "-P", "-m", "formulary_catalog.embedding.export", f"--model={model}"]
    if cache_dir is not None:
        command.append(f"--cache-dir={cache_dir}")
    # The model is on disk by now: nothing the child's libraries could fetch is wanted.
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    try:
        child = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=_EXPORT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbedderUnavailable(
            f"Exporting {source.name} did not finish ({type(error).__name__}); try again, or copy an export here."
        ) from error
    if child.returncode != 0:
        reason = (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[-1]
        raise EmbedderUnavailable(f"{source.name} could not be exported: {reason}")
