"""Pairs of workflows that say nearly the same and may be allowed for the same incident.

`services/workflows/upkeep` calls it with the vectors and labels of all that its caller sees. Their cosines are computed
in blocks, so that 10,000 workflows need little memory.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.workflows.labels import EXCLUDING_WHEN_ABSENT, WILDCARD, WorkflowLabels
from formulary_catalog.domain.workflows.matching import detected_holds

THRESHOLD = 0.7
"""The cosine from which two texts say nearly the same; `docs/coverage.md` has how it was measured."""
MAX_PAIRS = 5000
"""Of more pairs the nearest are kept: a catalog of copies has millions."""
_BLOCK = 256
_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A workflow as it is compared."""

    version_id: str
    namespace: str
    name: str
    action: str
    labels: WorkflowLabels = field(repr=False)


def near_pairs(
    vectors: npt.NDArray[np.float32], *, threshold: float = THRESHOLD, at_most: int = MAX_PAIRS
) -> list[tuple[int, int, float]]:
    """The pairs of rows whose cosine reaches the threshold, the nearest first; of each the lower row first.

    `vectors`: unit vectors, float32 of shape (n, 384).
    """
    rows, columns = np.empty(0, np.intp), np.empty(0, np.intp)
    cosines = np.empty(0, np.float32)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors[start:].T
        found_rows, found_columns = np.nonzero(np.triu(block >= threshold, k=1))
        rows = np.concatenate([rows, found_rows + start])
        columns = np.concatenate([columns, found_columns + start])
        cosines = np.concatenate([cosines, block[found_rows, found_columns]])
        nearest = np.lexsort((columns, rows, -cosines))[:at_most]
        rows, columns, cosines = rows[nearest], columns[nearest], cosines[nearest]
    return list(zip(rows.tolist(), columns.tolist(), cosines.tolist(), strict=True))


def overlap(one: WorkflowLabels, other: WorkflowLabels) -> bool:
    """Whether both are allowed for some incident that says all there is to say, its cluster if one declares any."""
    return (
        all(
            _meet(one.values.get(name, _EMPTY), other.values.get(name, _EMPTY), strict=name in EXCLUDING_WHEN_ABSENT)
            for name in one.values.keys() | other.values.keys()
        )
        and all(_meet(one.custom[key], other.custom[key]) for key in one.custom.keys() & other.custom.keys())
        and all(
            detected_holds(required=one.detected[key], observed=other.detected[key])
            or detected_holds(required=other.detected[key], observed=one.detected[key])
            for key in one.detected.keys() & other.detected.keys()
        )
    )


def replaces(one: WorkflowLabels, other: WorkflowLabels) -> bool:
    """Whether `one` is allowed wherever `other` is, and declares at least as much of what is asked for there."""
    return (
        all(one.values.get(name, _EMPTY) >= declared for name, declared in other.values.items())
        and all(name in other.values or WILDCARD in declared for name, declared in one.values.items())
        and all(one.custom.get(key, _EMPTY) >= declared for key, declared in other.custom.items())
        and all(key in other.custom or WILDCARD in declared for key, declared in one.custom.items())
        and dict(one.detected) == dict(other.detected)
    )


def _meet(one: frozenset[str], other: frozenset[str], *, strict: bool = False) -> bool:
    if not one or not other:
        return not strict or one == other
    return WILDCARD in one or WILDCARD in other or not one.isdisjoint(other)
