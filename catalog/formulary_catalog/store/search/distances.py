"""Distances between the vectors of workflows and of a query, in SQL: the cosine distance, and sketches near it.

`store/search/candidates` builds its tables with it.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from formulary_catalog.store.database.tenancy import StatementArguments

VectorsByModel = Mapping[str, npt.NDArray[np.float32]]
"""Unit vectors of one text, float32 of shape (384,), by the id of the model that each is comparable under: two while
the catalog changes its model."""


class Distances:
    """Expressions over a row of the search table; null where it has no vector by a model of the query's."""

    def __init__(self, vectors: VectorsByModel, arguments: StatementArguments) -> None:
        self._vectors = {
            arguments.add(model_id, "text"): arguments.add(vector, "vector") for model_id, vector in vectors.items()
        }

    @property
    def exact(self) -> str:
        """The cosine distance, 0 to 2."""
        return self._by_model({model_id: f"emb <=> {vector}" for model_id, vector in self._vectors.items()})

    @property
    def sketched(self) -> str:
        """In how many places the signs of the vectors differ: about as large a share of all as their angle is of 180
        degrees (Charikar, "Similarity estimation techniques from rounding algorithms", 2002)."""
        # As a subquery the sketch of the query is made once, not for each row.
        return self._by_model(
            {
                model_id: f"sketch <~> (select binary_quantize({vector})::bit(384))"
                for model_id, vector in self._vectors.items()
            }
        )

    @property
    def known(self) -> str:
        """True where there is a distance."""
        return self._by_model(dict.fromkeys(self._vectors, "true"))

    def _by_model(self, distances: Mapping[str, str]) -> str:
        if not distances:
            return "null::float8"
        distance = f"case model_id {' '.join(f'when {each} then {found}' for each, found in distances.items())} end"
        if len(distances) == 1:
            return distance
        # Distances of two models say nothing about each other, should a row have been left behind.
        return (
            f"case when model_id = (select model_id from embedding_model where state = 'serving') then {distance} end"
        )
