"""How well each candidate meets a query; `docs/search.md` explains the formula and what it was measured by."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from formulary_catalog.domain.evidence import Evidence, Place
from formulary_catalog.domain.terms import Term

MEANING_WEIGHT = 1.15
"""What one standard deviation of the cosine adds to the log odds that a candidate is the best."""
WORDS_WEIGHT = 0.53
"""What a part of the query that is found adds to them, for each unit of how telling it is."""
PLACE_WEIGHTS = (0.0, 0.5, 1.0, 1.0, 1.4)
"""What it counts where a part of the query is found, by `Place`: nowhere, signal type, what, when to use, name."""
CONFIRMED_WEIGHT = 1.0
"""What each detected label adds to them that it requires and that the incident has."""
USUAL_DEVIATION = 0.1
USUAL_COUNT = 20
"""Standard deviation of the cosines of so many candidates that are taken to be there beside the real ones: two or three
that happen to be equally near do not tell what a small difference is worth."""


class Fit(NamedTuple):
    """How well a candidate meets the query.

    `held`: how many of the `parts` of the query that can be looked for it holds. `log_odds`: of being the best of the
    candidates, up to a constant; the order goes by it.
    """

    held: int
    parts: int
    log_odds: float

    @property
    def covered(self) -> float:
        """The share of the query that it holds, 0..1."""
        return self.held / self.parts if self.parts else 0.0


def fits(evidence: Sequence[Evidence], *, terms: Sequence[Term], usable: Sequence[bool], by_meaning: bool) -> list[Fit]:
    """How well each candidate meets the query, in the order of the candidates.

    `usable` says for each term whether the database can look for it; `by_meaning` whether cosines count.
    """
    count = len(evidence)
    columns: dict[str, list[float]] = {}
    parts: set[str] = set()
    weights = term_weights(evidence, terms=terms, usable=usable)
    for term, weight, places in zip(terms, weights, _by_term(evidence, terms=terms), strict=True):
        if not weight:
            continue
        parts.add(term.origin)
        if any(places):
            values = _values(places, weight=weight)
            columns[term.origin] = _larger(columns[term.origin], values) if term.origin in columns else values
    by_candidate: list[tuple[float, ...]] = list(zip(*columns.values(), strict=True)) or [()] * count
    meaning = standardized([one.cosine if by_meaning else None for one in evidence])
    return [
        Fit(
            held=len(found) - found.count(0),
            parts=len(parts),
            log_odds=MEANING_WEIGHT * nearness
            + WORDS_WEIGHT * math.fsum(found)
            + CONFIRMED_WEIGHT * one.confirmed_labels,
        )
        for one, found, nearness in zip(evidence, by_candidate, meaning, strict=True)
    ]


def term_weights(evidence: Sequence[Evidence], *, terms: Sequence[Term], usable: Sequence[bool]) -> list[float]:
    """How telling each term is among the candidates; 0 for what the database cannot look for."""
    count = len(evidence)
    return [
        telling(count - places.count(Place.NONE), of=count) if searched else 0.0
        for searched, places in zip(usable, _by_term(evidence, terms=terms), strict=True)
    ]


def telling(holding: int, *, of: int) -> float:
    """How much it tells to hold a term that `holding` of the candidates hold: its inverse document frequency."""
    return math.log(1 + (of - holding + 0.5) / (holding + 0.5))


def standardized(cosines: Sequence[float | None]) -> list[float]:
    """In standard deviations from their mean, an unknown one taken for the lowest."""
    lowest = min((cosine for cosine in cosines if cosine is not None), default=0.0)
    values = [lowest if cosine is None else cosine for cosine in cosines]
    mean = math.fsum(values) / max(len(values), 1)
    squares = math.fsum((value - mean) ** 2 for value in values) + USUAL_COUNT * USUAL_DEVIATION**2
    deviation = math.sqrt(squares / (len(values) + USUAL_COUNT))
    return [(value - mean) / deviation for value in values]


def _by_term(evidence: Sequence[Evidence], *, terms: Sequence[Term]) -> list[tuple[Place, ...]]:
    """The places of each term in all candidates."""
    return list(zip(*(one.places for one in evidence), strict=True)) or [()] * len(terms)


def _values(places: Sequence[Place], *, weight: float) -> list[float]:
    by_place = [weight * share for share in PLACE_WEIGHTS]
    return [by_place[place] for place in places]


def _larger(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a if a > b else b for a, b in zip(one, other, strict=True)]
