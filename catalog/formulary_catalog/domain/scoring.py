"""How candidates are ordered and what confidence they are given; `docs/search.md` explains the formulas.

The order itself is computed in SQL over all candidates (`store.search`); `scaled` and `hybrid` are the same formulas
in Python, and a test holds the two equal.
"""

from collections.abc import Sequence
from enum import StrEnum


class SearchMode(StrEnum):
    """Which evidence ranked an answer."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    LABELS_ONLY = "labels-only"


LABELS_ONLY_STRENGTH = 0.5
SCORE_DIGITS = 6
"""Scores are rounded before they are compared, so that the order does not hang on the last bits of a float."""


def scaled(values: Sequence[float]) -> list[float]:
    """Min-max over the candidates; where all are equal there is nothing to tell apart: 1 if above zero, else 0."""
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [1.0 if high > 0 else 0.0] * len(values)
    return [(value - low) / (high - low) for value in values]


def hybrid(*, cosines: Sequence[float], lexical: Sequence[float]) -> list[float]:
    """Half the scaled cosine plus half the scaled lexical rank, 0..1, rounded (`reference/retrieval.md`)."""
    pairs = zip(scaled(cosines), scaled(lexical), strict=True)
    return [round(0.5 * cosine + 0.5 * rank, SCORE_DIGITS) for cosine, rank in pairs]


def strength(*, mode: SearchMode, cosine: float | None, word_coverage: float) -> float:
    """How well the best candidate fits in absolute terms, 0..1.

    Hybrid: the mean of its cosine and of the share of the query's words it contains. Lexical: that share. Labels
    alone say nothing about the text: a constant.
    """
    if mode is SearchMode.LABELS_ONLY:
        return LABELS_ONLY_STRENGTH
    if mode is SearchMode.LEXICAL or cosine is None:
        return word_coverage
    return (max(cosine, 0.0) + word_coverage) / 2


def confidence(*, best_strength: float, score: float, generic_labels: int, fewest_generic_labels: int) -> float:
    """Confidence of one candidate, 0..1, never rising along the order of the answer.

    `best_strength * (1 + score) / 2 * 0.5 ** (generic_labels - fewest_generic_labels)`: the factor `(1 + score) / 2`
    lies in 0.5..1, and each further generic label halves, so a generic candidate never passes an exact one.
    """
    return round(best_strength * (1 + score) / 2 * 0.5 ** (generic_labels - fewest_generic_labels), 4)
