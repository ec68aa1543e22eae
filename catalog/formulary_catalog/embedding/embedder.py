"""What an embedder is, and how the process gets one."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from formulary_catalog.embedding.endpoint import Endpoint, is_remote
from formulary_catalog.embedding.model import BUNDLED, locate
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.settings import EmbeddingBackend

QUERY_SECONDS = 0.3
"""How long a query waits for a remote model, unless the settings say otherwise."""

PATIENCE_SECONDS = 20.0
"""How long documents are asked for again while a remote model fails. A thread that waits for an endpoint cannot be
interrupted: a process that is asked to stop waits for it."""


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
    backend: EmbeddingBackend = "openvino",
    runs: int = 2,
    cache_dir: Path | None = None,
    api_key: str = "",
    query_seconds: float = QUERY_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Embedder:
    """The embedder for a bundled model, a directory or a hub id, run by `backend` in this process; or an endpoint's.

    Blocks for 0.5 s with OpenVINO, for some 6 s with sentence-transformers (an extra). `runs` is how many callers
    OpenVINO computes for at the same time; each takes 15 MB. `cache_dir` replaces the user's cache directory, where
    models outside the BERT family have their export. An endpoint reports its model, asked with
    `api_key` if there is one; a query waits for it `query_seconds`, and documents are asked for again for
    `patience_seconds`; with 0 there is one attempt.
    Raises `EmbedderUnavailable`, whatever goes wrong.
    """
    # Imported here, each: loading a backend takes seconds, and a process needs one at most.
    if is_remote(model):
        from formulary_catalog.embedding.remote import RemoteEmbedder

        return RemoteEmbedder(
            Endpoint.parse(model), api_key=api_key, query_seconds=query_seconds, patience_seconds=patience_seconds
        )
    source = locate(model)
    if backend == "sentence-transformers":
        if importlib.util.find_spec("sentence_transformers") is None:
            raise EmbedderUnavailable(
                "The backend sentence-transformers is not installed; install formulary[sentence-transformers], or set "
                "FORMULARY_EMBEDDING_BACKEND=openvino."
            )
        from formulary_catalog.embedding.reference import ReferenceEmbedder

        return ReferenceEmbedder(source)
    from formulary_catalog.embedding.local import load_local

    return load_local(source, cache_dir=cache_dir, runs=runs)
