"""How likely a workflow is right: a logistic regression on judged queries; `docs/search.md` explains it.

`domain/search/scoring` calls it. `scripts/calibrate.py` writes the coefficients.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

CONFIDENCE_DIGITS = 4
_LEAST = 10.0**-CONFIDENCE_DIGITS
OF_LABELS_ONLY = 0.1
"""The confidence where nothing but labels chose."""
CAUSE_INFORMATION, MOST_OF_A_SYMPTOM = 11.3, 0.6
"""A query of less `information` names a symptom that many causes share, and no workflow can be believed in more. So
little do two usual words say beside one that no text about operating Kubernetes holds, such as the name of a service.
"""


class Calibration(NamedTuple):
    """Coefficients.

    `score`: of the log odds of a fit. `information`: of the logarithm of how much the query says (`query.information`).
    `known`: of the cosine of the query and the nearest known problem (`embedding.known_problems`): the nearer a problem
    that none of the candidates may be for, the more it takes to believe in one of them. `pasted`: what is added for a
    query that a program printed. Such a text names symptoms that several causes share.
    """

    constant: float
    score: float
    information: float
    known: float = 0.0
    pasted: float = 0.0


# Written by scripts/calibrate.py.
BY_MEANING = Calibration(constant=-5.906, score=0.625, information=1.164, known=-11.093, pasted=-1.491)
BY_MEANING_ALONE = Calibration(constant=-6.353, score=0.349, information=0.677, known=0.0, pasted=-1.503)
BY_WORDS = Calibration(constant=-8.983, score=0.672, information=1.393, known=0.0, pasted=-0.878)


class QueryPart(NamedTuple):
    """What a query itself counts in the confidence of every workflow, in log odds, and the coefficient of their scores.

    `information`: what counts how much it says; `known`: what the nearest known problem takes from it; `pasted`: what
    it counts that a program printed it. `most`: the highest log odds of a workflow.
    """

    of_score: float
    constant: float
    information: float
    known: float
    pasted: float
    most: float

    @property
    def total(self) -> float:
        """What is added to `of_score` times the score of a workflow."""
        return self.constant + self.information + self.known + self.pasted

    @classmethod
    def of(cls, *, information: float, by_meaning: bool, nearest_known: float | None, pasted: bool) -> "QueryPart":
        """`nearest_known` is None for a model whose vectors of the known problems are not there."""
        alone = BY_MEANING_ALONE if nearest_known is None else BY_MEANING
        calibration = alone if by_meaning else BY_WORDS
        return cls(
            of_score=calibration.score,
            constant=calibration.constant,
            information=calibration.information * math.log1p(information),
            known=calibration.known * (nearest_known or 0.0),
            pasted=calibration.pasted if pasted else 0.0,
            most=log_odds_of(MOST_OF_A_SYMPTOM) if information < CAUSE_INFORMATION else math.inf,
        )


def confidences(
    log_odds: npt.NDArray[np.float64],
    *,
    information: float,
    by_meaning: bool,
    nearest_known: float | None,
    pasted: bool = False,
) -> npt.NDArray[np.float64]:
    """The probability, 0..1, that each workflow is right, whatever others there are. More log odds, no less of it."""
    query = QueryPart.of(information=information, by_meaning=by_meaning, nearest_known=nearest_known, pasted=pasted)
    likely = np.minimum(query.total + query.of_score * log_odds, query.most)
    return (1 / (1 + np.exp(-likely))).round(CONFIDENCE_DIGITS)


def log_odds_of(confidence: float) -> float:
    """The log odds of a confidence as it is shown: those of 0 and 1 are cut to what has so many digits."""
    likely = min(max(confidence, _LEAST), 1 - _LEAST)
    return math.log(likely / (1 - likely))
