"""Measures of a ranking and of a confidence: pure functions over grades, confidences and what was right.

A ranking is the list of grades of its answers in order: 2 best, 1 acceptable, 0 wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CUTOFF = 10
RESAMPLES = 5000
BINS = 10
_SEED = 20240229
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of about the same confidence: their range of confidence, how many, their means."""

    low: float
    high: float
    count: int
    confidence: float
    right: float


def reciprocal_rank(grades: Sequence[int], *, least: int, cutoff: int = CUTOFF) -> float:
    """One over the place of the first answer of at least that grade; 0 if there is none up to the cutoff."""
    for place, grade in enumerate(grades[:cutoff], start=1):
        if grade >= least:
            return 1 / place
    return 0.0


def found(grades: Sequence[int], *, least: int, cutoff: int) -> float:
    """1 if one of the first answers has at least that grade, else 0."""
    return float(any(grade >= least for grade in grades[:cutoff]))


def ndcg(grades: Sequence[int], *, ideal: Sequence[int], cutoff: int = CUTOFF) -> float:
    """Discounted gain of the answers, with the grade as the gain, over that of a perfect answer; 0 if nothing is."""
    perfect = _discounted(sorted(ideal, reverse=True)[:cutoff])
    return _discounted(grades[:cutoff]) / perfect if perfect else 0.0


def estimate(values: Sequence[float], *, resamples: int = RESAMPLES) -> Estimate:
    """The mean of one value for each query. Of differences between two systems it is the paired comparison."""
    observed = np.asarray(values, dtype=np.float64)
    if observed.size == 0:
        return Estimate(mean=float("nan"), low=float("nan"), high=float("nan"))
    drawn = np.random.default_rng(_SEED).integers(0, observed.size, size=(resamples, observed.size))
    low, high = np.percentile(observed[drawn].mean(axis=1), [2.5, 97.5])
    return Estimate(mean=float(observed.mean()), low=float(low), high=float(high))


def auroc(*, positives: Sequence[float], negatives: Sequence[float]) -> float:
    """How often a positive stands above a negative, a tie counting half; NaN if one side is empty."""
    above = np.asarray(positives, dtype=np.float64)[:, None] - np.asarray(negatives, dtype=np.float64)[None, :]
    return float(np.mean((above > 0) + (above == 0) / 2)) if above.size else float("nan")


def reliability_by_width(confidences: Sequence[float], right: Sequence[bool], *, bins: int = BINS) -> list[Bin]:
    """Answers in bins of equal width over 0..1; empty bins are left out."""
    given, came = _arrays(confidences, right)
    number = np.minimum((given * bins).astype(int), bins - 1)
    return [
        _bin(given[number == index], came[number == index], low=index / bins, high=(index + 1) / bins)
        for index in range(bins)
        if np.any(number == index)
    ]


def reliability_by_mass(confidences: Sequence[float], right: Sequence[bool], *, bins: int = BINS) -> list[Bin]:
    """Answers in bins that hold about equally many each, in the order of confidence."""
    given, came = _arrays(confidences, right)
    parts = np.array_split(np.argsort(given, kind="stable"), bins)
    return [
        _bin(given[part], came[part], low=float(given[part].min()), high=float(given[part].max()))
        for part in parts
        if part.size
    ]


def expected_calibration_error(reliability: Sequence[Bin]) -> float:
    """How far confidence and share of right answers lie apart, over bins weighted by their answers; NaN without any."""
    total = sum(each.count for each in reliability)
    if not total:
        return float("nan")
    return sum(each.count * abs(each.confidence - each.right) for each in reliability) / total


def _discounted(gains: Sequence[int]) -> float:
    return float(sum(gain / np.log2(place + 1) for place, gain in enumerate(gains, start=1)))


def _arrays(confidences: Sequence[float], right: Sequence[bool]) -> tuple[_Floats, _Floats]:
    return np.asarray(confidences, dtype=np.float64), np.asarray(right, dtype=np.float64)


def _bin(given: _Floats, came: _Floats, *, low: float, high: float) -> Bin:
    return Bin(low=low, high=high, count=int(given.size), confidence=float(given.mean()), right=float(came.mean()))
