"""How likely a workflow is right: a logistic regression on judged queries; `docs/search.md` explains it.

`domain/search/scoring` calls it. `scripts/calibrate.py` writes the coefficients.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.search.fit import Wanted
from formulary_catalog.domain.search.query import NO_SIGNS, QuerySigns

CONFIDENCE_DIGITS = 4
_LEAST = 10.0**-CONFIDENCE_DIGITS
OF_LABELS_ONLY = 0.1
"""The confidence where nothing but labels chose."""
MOST_OF_A_SYMPTOM = 0.6
"""The most that a workflow can be believed in where the query names a symptom that many causes share, and none of them.
"""


class Calibration(NamedTuple):
    """Coefficients.

    `score`: of the log odds of a fit. `length`: of the logarithm of how rare the words of the query are together.
    `known`: of the cosine of the query and the nearest known problem (`embedding.known_problems`): the nearer a problem
    that none of the candidates may be for, the more it takes to believe in one of them. `pasted`: what is added for a
    query that a program printed, which says more than what is wrong. `symptom`: what is added where it names a signal
    that several causes have in common.
    """

    constant: float
    score: float
    length: float
    known: float = 0.0
    pasted: float = 0.0
    symptom: float = 0.0


# Written by scripts/calibrate.py.
BY_MEANING = Calibration(constant=-5.461, score=0.592, length=1.113, known=-11.015, pasted=-0.96, symptom=-1.522)
BY_MEANING_ALONE = Calibration(constant=-5.636, score=0.337, length=0.512, known=0.0, pasted=-1.078, symptom=-0.921)
BY_WORDS = Calibration(constant=-8.947, score=0.62, length=1.415, known=0.0, pasted=-0.625, symptom=-1.413)


class QueryPart(NamedTuple):
    """What a query itself counts in the confidence of every workflow, in log odds, and the coefficient of their scores.

    `length`: what the rarity of its words counts; `known`: what the nearest known problem takes from it; `pasted`: what
    it counts that a program printed it, `symptom` that it names one. `most`: the highest log odds of a workflow.
    """

    of_score: float
    constant: float
    length: float
    known: float
    pasted: float
    symptom: float
    most: float

    @property
    def total(self) -> float:
        """What is added to `of_score` times the score of a workflow."""
        return self.constant + self.length + self.known + self.pasted + self.symptom

    @classmethod
    def of(cls, signs: QuerySigns, *, wanted: Wanted, by_meaning: bool, nearest_known: float | None) -> "QueryPart":
        """`nearest_known` is None for a model whose vectors of the known problems are not there."""
        alone = BY_MEANING_ALONE if nearest_known is None else BY_MEANING
        calibration = alone if by_meaning else BY_WORDS
        return cls(
            of_score=calibration.score,
            constant=calibration.constant,
            length=calibration.length * math.log1p(wanted.rarity),
            known=calibration.known * (nearest_known or 0.0),
            pasted=calibration.pasted if signs.printed else 0.0,
            symptom=calibration.symptom if signs.symptom else 0.0,
            most=log_odds_of(MOST_OF_A_SYMPTOM) if signs.no_cause else math.inf,
        )


def confidences(
    log_odds: npt.NDArray[np.float64],
    *,
    wanted: Wanted,
    by_meaning: bool,
    nearest_known: float | None,
    signs: QuerySigns = NO_SIGNS,
) -> npt.NDArray[np.float64]:
    """The probability, 0..1, that each workflow is right, whatever others there are. More log odds, no less of it."""
    query = QueryPart.of(signs, wanted=wanted, by_meaning=by_meaning, nearest_known=nearest_known)
    likely = np.minimum(query.total + query.of_score * log_odds, query.most)
    return (1 / (1 + np.exp(-likely))).round(CONFIDENCE_DIGITS)


def log_odds_of(confidence: float) -> float:
    """The log odds of a confidence as it is shown: those of 0 and 1 are cut to what has so many digits."""
    likely = min(max(confidence, _LEAST), 1 - _LEAST)
    return math.log(likely / (1 - likely))
