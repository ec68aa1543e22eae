"""Vectors of the benchmark's texts: computed once with the real model, then kept in the user's cache directory."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS

Vectors = npt.NDArray[np.float32]

NEARNESS = 0.91
"""Cosine of a workflow's vector to that of its sentence: what other words and versions make of it."""
_PORTION = 64


def cached_vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """The vectors of the texts, of shape (n, 384); an interrupted computation goes on where it was.

    One file holds a portion of the texts: its name is the hash of what they say and of the model.
    """
    portions = [_portion(embedder, texts[start : start + _PORTION]) for start in range(0, len(texts), _PORTION)]
    return np.concatenate(portions) if portions else np.empty((0, VECTOR_DIMENSIONS), np.float32)


def noisy(vector: Vectors, *, seed: tuple[int, int]) -> Vectors:
    """A unit vector at about `NEARNESS` from a unit vector, always the same for the same seed."""
    noise = np.random.default_rng(seed).standard_normal(VECTOR_DIMENSIONS, np.float32)
    moved = vector + noise * (math.tan(math.acos(NEARNESS)) / math.sqrt(VECTOR_DIMENSIONS))
    unit: Vectors = (moved / np.linalg.norm(moved)).astype(np.float32)
    return unit


def _portion(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    identity = "\0".join([embedder.model_id, *texts])
    directory = user_cache_path("formulary") / "bench-vectors"
    file = directory / f"{hashlib.sha256(identity.encode()).hexdigest()}.npy"
    if file.exists():
        stored: Vectors = np.load(file)
        return stored
    vectors = embedder.embed_documents(texts)
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".partial.npy")
    np.save(unfinished, vectors)
    unfinished.rename(file)
    return vectors
