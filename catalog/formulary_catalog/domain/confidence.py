"""How likely a candidate is right: a logistic regression on judged queries; `docs/search.md` explains it."""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from formulary_catalog.domain.evidence import Evidence
from formulary_catalog.domain.fitting import Fit

CONFIDENCE_DIGITS = 4
NONE_OF_THEM = -1.0
"""The log odds, on the scale of `Fit.log_odds`, of the answer that none of the candidates is right."""
_LEAST_ODDS = 1e-12


class Hints(NamedTuple):
    """What speaks for a candidate.

    `covered`: the share of the query's parts that it holds. `held`: the logarithm of one more than the number of these.
    `odds`: the logarithm of its odds against all other candidates and none of them.
    """

    constant: float
    cosine: float
    covered: float
    held: float
    odds: float


# Written by scripts/calibrate.py.
BY_MEANING = Hints(constant=-2.39, cosine=1.02, covered=2.39, held=0.69, odds=0.56)
BY_WORDS = Hints(constant=-2.03, cosine=0.0, covered=2.8, held=0.74, odds=0.65)


def confidences(ordered: Sequence[tuple[Evidence, Fit]], *, calibration: Hints) -> Iterator[float]:
    """The confidence of each candidate in the order of the answer, 0..1; it never rises along the list."""
    likely = (_logistic(sum(map(mul, calibration, each))) for each in hints(ordered))
    return (round(value, CONFIDENCE_DIGITS) for value in accumulate(likely, min))


def of_labels_only(count: int) -> list[float]:
    """The confidences where nothing but labels chose: any of the candidates may be right, or none."""
    return [round(1 / (1 + count), CONFIDENCE_DIGITS)] * count


def hints(candidates: Sequence[tuple[Evidence, Fit]]) -> Iterator[Hints]:
    """What speaks for each of the candidates, all of which it is weighed against."""
    most = max((fit.log_odds for _, fit in candidates), default=NONE_OF_THEM)
    odds = [math.exp(fit.log_odds - most) for _, fit in candidates]
    # Copies of a workflow in several namespaces are no doubt about it.
    distinct = {(one.name, fit): own for (one, fit), own in zip(candidates, odds, strict=True)}
    total = math.fsum([*distinct.values(), math.exp(NONE_OF_THEM - most)])
    for (one, fit), own in zip(candidates, odds, strict=True):
        yield Hints(
            constant=1.0,
            cosine=one.cosine or 0.0,
            covered=fit.covered,
            held=math.log1p(fit.held),
            odds=math.log(max(own, _LEAST_ODDS) / max(total - own, _LEAST_ODDS)),
        )


def _logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
