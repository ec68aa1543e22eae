"""Orders the candidates and computes their confidence; `docs/search.md` explains both.

`kernel/search/pipeline` calls it with what the store read. Pure, so that the order can be tested without a database: by
properties, by mutants, and against every order of the input.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.confidence import OF_LABELS_ONLY, confidences
from formulary_catalog.domain.search.fit import Wanted, fits
from formulary_catalog.domain.search.query import NO_SIGNS, QuerySigns

NOISE = 0.25
"""The cosine that texts without anything in common may have."""
LEAST_CONFIDENCE, _GAP = 0.1, 12.0
"""A hit of less confidence is not worth reading, nor one whose odds are so many times lower than those of the one
before: of the right answers to judged queries that the first bound leaves, the second loses none."""
_LEAST_ODDS = 1e-9
SCORE_DIGITS = 6
"""Scores are rounded before they are compared, so that the order does not hang on the last bits of a float."""


class Scored(NamedTuple):
    """A candidate in its place: the score, in log odds, orders; the confidence, 0..1, says how likely it is right.

    `fits_nothing`: it has no significant word of the query, and its meaning is as far away as that of any text.
    """

    evidence: CandidateEvidence
    score: float
    confidence: float
    fits_nothing: bool


def rank(
    evidence: Sequence[CandidateEvidence],
    *,
    wanted: Wanted,
    mode: SearchMode,
    severity_inferred: bool = False,
    nearest_known: float | None = None,
    signs: QuerySigns = NO_SIGNS,
) -> list[Scored]:
    """The candidates in order: highest score, name, namespace. Confidence never rises along the list.

    `nearest_known`: the cosine of the query and the nearest known problem, if that is known for the model. `signs`:
    what the query tells.
    """
    by_meaning = mode is SearchMode.HYBRID
    fitting = fits(evidence, wanted=wanted, by_meaning=by_meaning, severity_inferred=severity_inferred)
    scores = fitting.log_odds.round(SCORE_DIGITS)
    if mode is SearchMode.LABELS_ONLY:
        confident = np.full(len(evidence), OF_LABELS_ONLY)
        unfit = np.zeros(len(evidence), bool)
    else:
        confident = confidences(scores, wanted=wanted, by_meaning=by_meaning, nearest_known=nearest_known, signs=signs)
        near = np.array([by_meaning and (one.cosine or 0.0) >= NOISE for one in evidence], bool)
        unfit = ~fitting.significant & ~near
    scored = map(Scored, evidence, scores.tolist(), confident.tolist(), unfit.tolist())
    return sorted(scored, key=lambda each: (-each.score, each.evidence.name, each.evidence.namespace))


def worth_reading(confidences: Sequence[float]) -> int:
    """How many of the first hits an answer holds that ends where they stop being worth reading (DESIGN section 5).

    The first is one in any case, so that a vague query is answered.
    """
    odds = [each / max(1 - each, _LEAST_ODDS) for each in confidences]
    for place in range(1, len(odds)):
        if confidences[place] < LEAST_CONFIDENCE or odds[place] * _GAP < odds[place - 1]:
            return place
    return len(odds)
