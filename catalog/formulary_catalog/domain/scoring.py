"""The order of the candidates and their confidence; `docs/search.md` explains both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from formulary_catalog.domain.confidence import BY_MEANING, BY_WORDS, confidences, of_labels_only
from formulary_catalog.domain.evidence import Evidence
from formulary_catalog.domain.fitting import Fit, fits
from formulary_catalog.domain.terms import Term


class SearchMode(StrEnum):
    """Which evidence ranked an answer."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    LABELS_ONLY = "labels-only"


WEAK_CONFIDENCE = 0.5
"""Below it the first answer is more likely wrong than right, and a note says that perhaps nothing fits."""
SCORE_DIGITS = 6
"""Scores are rounded before they are compared, so that the order does not hang on the last bits of a float."""


class Placed(NamedTuple):
    """A candidate, its score and what that is made of."""

    evidence: Evidence
    score: float
    fit: Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A candidate in its place: the score orders, the confidence says how likely it is right; both 0..1."""

    evidence: Evidence
    score: float
    confidence: float


def rank(
    evidence: Sequence[Evidence], *, terms: Sequence[Term], usable: Sequence[bool], mode: SearchMode, limit: int
) -> list[Scored]:
    """The first `limit` in order: fewest generic labels, highest score, name, namespace. Confidence never rises.

    `usable` says for each term whether the database can look for it.
    """
    ordered = in_order(evidence, terms=terms, usable=usable, mode=mode)
    confident = _confidences([(each.evidence, each.fit) for each in ordered], mode=mode)
    return [
        Scored(evidence=each.evidence, score=each.score, confidence=confidence)
        for each, confidence in islice(zip(ordered, confident, strict=True), limit)
    ]


def in_order(
    evidence: Sequence[Evidence], *, terms: Sequence[Term], usable: Sequence[bool], mode: SearchMode
) -> list[Placed]:
    """The candidates in order, with what the confidence is made of."""
    fitting = fits(evidence, terms=terms, usable=usable, by_meaning=mode is SearchMode.HYBRID)
    scores = scaled([fit.log_odds for fit in fitting])
    placed = [Placed(*each) for each in zip(evidence, scores, fitting, strict=True)]
    return sorted(placed, key=_place)


def scaled(values: Sequence[float]) -> list[float]:
    """From 0 for the lowest to 1 for the highest, rounded; 1 where all are equal, none being better than another."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [round((value - low) / (high - low), SCORE_DIGITS) if high > low else 1.0 for value in values]


def _place(candidate: Placed) -> tuple[int, float, str, str]:
    one = candidate.evidence
    return one.generic_labels, -candidate.score, one.name, one.namespace


def _confidences(ordered: Sequence[tuple[Evidence, Fit]], *, mode: SearchMode) -> Iterable[float]:
    if mode is SearchMode.LABELS_ONLY:
        return of_labels_only(len(ordered))
    return confidences(ordered, calibration=BY_MEANING if mode is SearchMode.HYBRID else BY_WORDS)
