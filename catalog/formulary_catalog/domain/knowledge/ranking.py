"""The order of documents: the evidence of a search, of meaning and words, without labels.

`services/knowledge/service` calls it. Its weights are those of workflows (`docs/benchmarks.md`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.fit import MEANING_WEIGHT, WORDS_WEIGHT, Wanted
from formulary_catalog.domain.search.scoring import rank
from formulary_catalog.domain.search.terms import Term

_DIGITS = 4


class RankedDocument(NamedTuple):
    """A document in its place. The score, 0..1, orders those of one answer; it is no probability."""

    doc_id: str
    score: float


def rank_documents(
    evidence: Sequence[CandidateEvidence], *, terms: Sequence[Term], usable: Sequence[bool], by_meaning: bool
) -> list[RankedDocument]:
    """The documents in order, without those that fit nothing.

    `evidence` has the id of the document in place of that of a version. The score is the weighted mean of the cosine
    and of the share of the words that a document holds; without meaning, that share alone.
    """
    mode = SearchMode.HYBRID if by_meaning else SearchMode.LEXICAL
    most = (MEANING_WEIGHT if by_meaning else 0.0) + WORDS_WEIGHT
    return [
        RankedDocument(scored.evidence.version_id, round(min(max(scored.score / most, 0.0), 1.0), _DIGITS))
        for scored in rank(evidence, wanted=Wanted.of(terms, usable=usable), mode=mode)
        if not scored.fits_nothing
    ]
