"""Distances between the vectors of workflows and of a query, in SQL: the cosine distance, and sketches near it.

`store/search/candidates` builds its tables with it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from formulary_catalog.store.database.tenancy import StatementArguments


class ModelVector(NamedTuple):
    """The unit vector of a text, float32 of shape (384,), comparable with those of the same model."""

    model_id: str
    values: npt.NDArray[np.float32]


class Distances:
    """Expressions over a row of the search table; null where it has no vector by the model of the query's."""

    def __init__(self, vector: ModelVector | None, arguments: StatementArguments) -> None:
        self._model_id = arguments.add(vector.model_id, "text") if vector else ""
        self._vector = arguments.add(vector.values, "vector") if vector else ""

    @property
    def exact(self) -> str:
        """The cosine distance, 0 to 2."""
        return self._where_comparable(f"emb <=> {self._vector}")

    @property
    def sketched(self) -> str:
        """In how many places the signs of the vectors differ: about as large a share of all as their angle is of 180
        degrees (Charikar, "Similarity estimation techniques from rounding algorithms", 2002)."""
        # As a subquery the sketch of the query is made once, not for each row.
        return self._where_comparable(f"sketch <~> (select binary_quantize({self._vector})::bit(384))")

    @property
    def known(self) -> str:
        """True where there is a distance."""
        return self._where_comparable("true")

    def _where_comparable(self, found: str) -> str:
        return f"case model_id when {self._model_id} then {found} end" if self._model_id else "null::float8"
