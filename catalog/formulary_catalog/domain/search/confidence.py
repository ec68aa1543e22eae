"""How likely a workflow is right: a logistic regression on judged queries; `docs/search.md` explains it.

`domain/search/scoring` calls it. `scripts/calibrate.py` writes the coefficients.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.search.fit import Wanted

CONFIDENCE_DIGITS = 4
OF_LABELS_ONLY = 0.1
"""The confidence where nothing but labels chose."""


class Calibration(NamedTuple):
    """Coefficients.

    `score`: of the log odds of a fit. `length`: of the logarithm of how rare the words of the query are together.
    `known`: of the cosine of the query and the nearest known problem (`embedding.known_problems`): the nearer a problem
    that none of the candidates may be for, the more it takes to believe in one of them.
    """

    constant: float
    score: float
    length: float
    known: float = 0.0


# Written by scripts/calibrate.py.
BY_MEANING = Calibration(constant=-5.57, score=0.697, length=1.143, known=-11.92)
BY_MEANING_ALONE = Calibration(constant=-5.993, score=0.428, length=0.497, known=0.0)
BY_WORDS = Calibration(constant=-9.357, score=0.754, length=1.508, known=0.0)


class QueryPart(NamedTuple):
    """What a query itself counts in the confidence of every workflow, in log odds, and the coefficient of their scores.

    `length`: what the rarity of its words counts; `known`: what the nearest known problem takes from it.
    """

    of_score: float
    constant: float
    length: float
    known: float

    @property
    def total(self) -> float:
        """What is added to `of_score` times the score of a workflow."""
        return self.constant + self.length + self.known

    @classmethod
    def of(cls, *, wanted: Wanted, by_meaning: bool, nearest_known: float | None) -> "QueryPart":
        """`nearest_known` is None for a model whose vectors of the known problems are not there."""
        alone = BY_MEANING_ALONE if nearest_known is None else BY_MEANING
        calibration = alone if by_meaning else BY_WORDS
        return cls(
            of_score=calibration.score,
            constant=calibration.constant,
            length=calibration.length * math.log1p(wanted.rarity),
            known=calibration.known * (nearest_known or 0.0),
        )


def confidences(
    log_odds: npt.NDArray[np.float64], *, wanted: Wanted, by_meaning: bool, nearest_known: float | None
) -> npt.NDArray[np.float64]:
    """The probability, 0..1, that each workflow is right. For one query it rises and falls with the log odds."""
    of_query = QueryPart.of(wanted=wanted, by_meaning=by_meaning, nearest_known=nearest_known)
    return (1 / (1 + np.exp(-(of_query.total + of_query.of_score * log_odds)))).round(CONFIDENCE_DIGITS)
