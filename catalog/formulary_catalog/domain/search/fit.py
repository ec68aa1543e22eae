"""How well workflows meet a query: their evidence, added up in log odds (`docs/search.md`).

The sum of one workflow depends on the query and on this workflow alone. Which others are allowed changes nothing, so no
rival and no constraint of the incident can move it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.terms import RARE, USUAL_RARITY, Term, rarity
from formulary_catalog.domain.text import PLACE_WEIGHTS

MEANING_WEIGHT = 15.37
"""What a cosine of 1 counts. Written by scripts/calibrate.py."""
WORDS_WEIGHT = 10.38
"""What it counts to hold all words of the query, as a share of them: many words do not outvote the meaning. Written by
scripts/calibrate.py."""
_PLACE_WEIGHTS = np.array(PLACE_WEIGHTS)
_SIGNIFICANT_SHARE, _SIGNIFICANT_RARITY = 0.6, 2.4
"""A part is significant if it is at least this share as rare as the rarest part that texts about Kubernetes hold, or
this rare: about as rare as "memory". Names of services, which hardly any text holds, must not make "pod"
insignificant."""
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the query: how rare its word is, and the terms that match it, by their position among all."""

    rarity: float
    terms: tuple[int, ...]


@dataclass(frozen=True)
class Wanted:
    """The parts of a query that the index can hold, and how rare they are together."""

    parts: tuple[Part, ...]
    rarity: float

    @classmethod
    def of(cls, terms: Sequence[Term], *, usable: Sequence[bool]) -> "Wanted":
        """`usable` says for each term whether the index can hold it."""
        numbers: dict[str, list[int]] = {}
        for number, (term, held) in enumerate(zip(terms, usable, strict=True)):
            if held:
                numbers.setdefault(term.origin, []).append(number)
        parts = tuple(Part(rarity(terms[each[0]].word), tuple(each)) for each in numbers.values())
        return cls(parts, sum(part.rarity for part in parts))

    @cached_property
    def significant(self) -> tuple[Part, ...]:
        """The parts that say what the query is about."""
        rarest = max((part.rarity for part in self.parts if part.rarity <= RARE), default=0.0)
        least = min(_SIGNIFICANT_SHARE * rarest, _SIGNIFICANT_RARITY)
        return tuple(part for part in self.parts if part.rarity >= least and part.rarity > 0)


class Fits(NamedTuple):
    """How well each candidate meets the query, float64 and bool of shape (candidates,).

    `log_odds`: the sum of its evidence, by which candidates are ordered. `significant`: whether it holds a significant
    part of the query.
    """

    log_odds: _Floats
    significant: npt.NDArray[np.bool_]


def fits(
    evidence: Sequence[CandidateEvidence], *, wanted: Wanted, by_meaning: bool, severity_inferred: bool = False
) -> Fits:
    """How well each candidate meets the query. An unknown cosine counts as 0; none counts without `by_meaning`."""
    count = len(evidence)
    found = places_found(evidence, wanted=wanted)
    words = words_held(found, wanted=wanted)
    cosines = np.array([one.cosine or 0.0 for one in evidence]) if by_meaning else np.zeros(count)
    labels = np.array([one.labels for one in evidence])
    severity = np.array([one.severity if severity_inferred else 0.0 for one in evidence])
    significant = [number for number, part in enumerate(wanted.parts) if part in wanted.significant]
    return Fits(
        log_odds=MEANING_WEIGHT * cosines + WORDS_WEIGHT * words + labels + severity,
        significant=np.asarray((found[:, significant] > 0).any(axis=1), bool),
    )


def words_held(found: _Floats, *, wanted: Wanted) -> _Floats:
    """The share of the query's words that each candidate holds, by rarity and place; above 1 if in better places."""
    rare = np.array([part.rarity for part in wanted.parts])
    # Not a product of matrices: the sum of one candidate must not depend, in its last bits, on how many there are.
    share: _Floats = (found * rare).sum(axis=1) / (wanted.rarity + USUAL_RARITY)
    return share


def places_found(evidence: Sequence[CandidateEvidence], *, wanted: Wanted) -> _Floats:
    """What the place counts where each part is found best, of shape (candidates, parts)."""
    shape = len(evidence), len(evidence[0].places) if evidence else 0
    places = np.frombuffer(b"".join(one.places for one in evidence), np.uint8).reshape(shape)
    best = np.empty((len(evidence), len(wanted.parts)), np.uint8)
    if evidence:
        for number, part in enumerate(wanted.parts):
            best[:, number] = places[:, part.terms].max(axis=1)
    found: _Floats = _PLACE_WEIGHTS[best]
    return found
