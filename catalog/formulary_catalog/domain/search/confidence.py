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


MOST_OF_A_SYMPTOM = 0.6
"""The most that one workflow can be believed in where the query names a symptom that many causes share, and none of
them."""


class Calibration(NamedTuple):
    """Coefficients.

    `score`: of the log odds of a fit. `length`: of the logarithm of how rare the words of the query are together.
    `known`: of the cosine of the query and the nearest known problem (`embedding.known_problems`): the nearer a problem
    that none of the candidates may be for, the more it takes to believe in one of them. `pasted`, `pasted_score`: what
    is added to the constant and to the coefficient of the score for a query that a program printed. Such a text names
    symptoms that several causes share: many workflows fit it, and only a high score tells one from the others.
    """

    constant: float
    score: float
    length: float
    known: float = 0.0
    pasted: float = 0.0
    pasted_score: float = 0.0


# Written by scripts/calibrate.py.
BY_MEANING = Calibration(constant=-5.207, score=0.569, length=1.101, known=-10.931, pasted=-6.523, pasted_score=0.3)
BY_MEANING_ALONE = Calibration(constant=-5.36, score=0.318, length=0.495, known=0.0, pasted=-5.628, pasted_score=0.262)
BY_WORDS = Calibration(constant=-8.646, score=0.607, length=1.357, known=0.0, pasted=-1.417, pasted_score=-0.027)


class QueryPart(NamedTuple):
    """What a query itself counts in the confidence of every workflow, in log odds, and the coefficient of their scores.

    `length`: what the rarity of its words counts; `known`: what the nearest known problem takes from it; `pasted`: what
    it counts that a program printed it.
    """

    of_score: float
    constant: float
    length: float
    known: float
    pasted: float

    @property
    def total(self) -> float:
        """What is added to `of_score` times the score of a workflow."""
        return self.constant + self.length + self.known + self.pasted

    @classmethod
    def of(cls, *, wanted: Wanted, by_meaning: bool, nearest_known: float | None, pasted: bool) -> "QueryPart":
        """`nearest_known` is None for a model whose vectors of the known problems are not there."""
        alone = BY_MEANING_ALONE if nearest_known is None else BY_MEANING
        calibration = alone if by_meaning else BY_WORDS
        return cls(
            of_score=calibration.score + (calibration.pasted_score if pasted else 0.0),
            constant=calibration.constant,
            length=calibration.length * math.log1p(wanted.rarity),
            known=calibration.known * (nearest_known or 0.0),
            pasted=calibration.pasted if pasted else 0.0,
        )


def confidences(
    log_odds: npt.NDArray[np.float64],
    *,
    wanted: Wanted,
    by_meaning: bool,
    nearest_known: float | None,
    pasted: bool = False,
    names_no_cause: bool = False,
) -> npt.NDArray[np.float64]:
    """The probability, 0..1, that each workflow is right. For one query it rises and falls with the log odds.

    What a query leaves open that `names_no_cause` is open for each workflow, whatever others there are.
    """
    of_query = QueryPart.of(wanted=wanted, by_meaning=by_meaning, nearest_known=nearest_known, pasted=pasted)
    most = MOST_OF_A_SYMPTOM if names_no_cause else 1.0
    return (most / (1 + np.exp(-(of_query.total + of_query.of_score * log_odds)))).round(CONFIDENCE_DIGITS)
