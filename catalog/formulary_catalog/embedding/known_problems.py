"""How near a query is to the nearest known problem of operating Kubernetes, whatever the catalog holds.

A query that is nearer to a problem for which no workflow is allowed than to any allowed workflow is likely to be about
that problem. Confidence counts it (`domain.search.confidence`); the order does not. The vectors are those of the texts
that the adapter was trained on (`training`), for the bundled model alone.
"""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from formulary_catalog.embedding.weights import Weights

FILE = Path(__file__).with_name("known_problems.safetensors")
"""Unit vectors, float16 of shape (problems, 384), by the id of the model that made them."""


def nearest_known(query: npt.NDArray[np.float32] | None, *, model_id: str) -> float | None:
    """The cosine of a query, a unit vector of shape (384,), and the nearest problem; None for other models."""
    vectors = _vectors(model_id)
    return None if query is None or vectors is None else float((vectors @ query).max())


@cache
def _vectors(model_id: str) -> npt.NDArray[np.float32] | None:
    weights = Weights(FILE)
    return np.asarray(weights[model_id], np.float32) if model_id in weights else None
