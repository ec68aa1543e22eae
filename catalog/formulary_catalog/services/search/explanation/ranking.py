"""From a ranking to its explanations: the place of a workflow, its evidence, and what would have made it the first.

`service` beside it reads what is needed and calls this last. Nothing here asks the database.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.caution import CAUTION_WEIGHT
from formulary_catalog.domain.search.confidence import QueryPart
from formulary_catalog.domain.search.explanation.answers import (
    EvidencePart,
    ExcludedBy,
    Explanation,
    FirstWorkflow,
    NeededChange,
    RecordedPlace,
)
from formulary_catalog.domain.search.explanation.evidence import RankingBasis, changes_to_be_first, evidence_of
from formulary_catalog.domain.search.request import DEFAULT_TOP_K, SearchRequest
from formulary_catalog.domain.search.scoring import LEAST_CONFIDENCE, SCORE_DIGITS, Scored
from formulary_catalog.domain.stored import StoredVersion
from formulary_catalog.domain.workflows.exclusion import Exclusion
from formulary_catalog.kernel.manifests import ParsedWorkflow
from formulary_catalog.kernel.search.page import Hit, Ranked, page_of
from formulary_catalog.kernel.search.planning import SearchPlan
from formulary_catalog.services.search.explanation.recorded import RecordedSearch

_NEARER = 0.01
"""By so much of a cosine a problem has to be nearer than a workflow: the workflow itself may be among them, rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A search as it is ranked now. `reveal`: whether the caller may know the incident's custom labels."""

    request: SearchRequest
    plan: SearchPlan
    ranked: Ranked
    hits: Sequence[Hit]
    order: Sequence[Scored]
    """All in their places; a caution may have moved some of the first."""
    reveal: bool

    @classmethod
    def of(
        cls, ranked: Ranked, hits: Sequence[Hit], *, request: SearchRequest, plan: SearchPlan, reveal: bool
    ) -> "Ranking":
        looked_at = {scored.evidence.version_id for scored in ranked.first}
        rest = [scored for scored in ranked.order if scored.evidence.version_id not in looked_at]
        order = [*(hit.scored for hit in hits), *rest]
        return cls(request=request, plan=plan, ranked=ranked, hits=hits, order=order, reveal=reveal)

    def place_of(self, version_id: str) -> int | None:
        """Its place from 1; None where it is not ranked."""
        order = enumerate(self.order, 1)
        return next((place for place, scored in order if scored.evidence.version_id == version_id), None)

    def shows(self, version_id: str) -> bool:
        """Whether the answer holds it."""
        return any(hit.stored.version_id == version_id for hit in self.page())

    def page(self) -> list[Hit]:
        """What the answer holds, unless it is too long."""
        shown = page_of(self.hits, request=self.request)
        return [hit for hit in shown if hit.scored.confidence >= self.request.min_confidence]


def explanation(
    stored: StoredVersion,
    parsed: ParsedWorkflow,
    *,
    evidence: CandidateEvidence | None,
    ranking: Ranking,
    excluded: Sequence[Exclusion] = (),
    recorded: RecordedSearch | None = None,
    asker: str = "",
) -> Explanation:
    """Why a workflow is in the answer, or why not.

    `evidence` speaks for it, if it is allowed and was found; `excluded` are the rules that exclude it, in the order in
    which they are checked. Of a `recorded` search `asker` is who wants to know.
    """
    ranked, order = ranking.ranked, ranking.order
    place = ranking.place_of(stored.version_id) if not excluded else None
    scored = order[place - 1] if place is not None else None
    hit = next((hit for hit in ranking.hits if hit.stored.version_id == stored.version_id), None)
    basis, caution = _basis(ranking), hit.caution if hit is not None else ""
    found = evidence if not excluded else None
    parts = evidence_of(parsed.labels, found, basis=basis, caution=caution) if found is not None else []
    score: float | None = None
    if scored is not None:
        score = scored.score
    elif found is not None:
        score = round(sum(part.log_odds for part in parts if part.in_score), SCORE_DIGITS)
    behind = order[0].score - score if order and score is not None else 0.0
    changes = changes_to_be_first(parts, found, basis=basis, behind=behind) if found is not None and place != 1 else []
    why_not = "" if excluded else _why_not_returned(ranking, scored=scored, place=place)
    first = order[0] if order else None
    return Explanation(
        workflow_id=f"{stored.namespace}/{stored.name}",
        version=stored.version,
        version_id=stored.version_id,
        query=ranking.request.query,
        search_id=str(recorded.search_id) if recorded is not None else "",
        allowed=not excluded,
        excluded_by=_rule(excluded[0]) if excluded else None,
        also_excluded_by=[_rule(each) for each in excluded[1:]],
        returned=not excluded and not why_not,
        not_returned_because=why_not,
        rank=place,
        total_results=ranked.candidates.total,
        score=score,
        confidence=scored.confidence if scored is not None else None,
        first=FirstWorkflow(workflow_id=f"{first.evidence.namespace}/{first.evidence.name}", score=first.score)
        if first is not None
        else None,
        evidence=[
            EvidencePart(
                part=part.part,
                detail=part.detail,
                log_odds=round(part.log_odds, SCORE_DIGITS),
                at_most=round(part.at_most, SCORE_DIGITS),
                in_score=part.in_score,
            )
            for part in parts
        ],
        to_be_first=[
            NeededChange(change=each.change, gain=round(each.gain, SCORE_DIGITS), enough=each.enough)
            for each in changes
        ],
        recorded=_place_then(recorded, version_id=stored.version_id) if recorded is not None else None,
        search_mode=ranked.mode,
        notes=[
            *ranking.plan.notes,
            *_derivation(ranked, scored, caution=caution),
            *_doubts(ranked, found),
            *_replay_notes(recorded, asker=asker),
        ],
    )


def _derivation(ranked: Ranked, scored: Scored | None, *, caution: str) -> Iterator[str]:
    """How the confidence of a workflow follows from its score."""
    if scored is None or ranked.mode is SearchMode.LABELS_ONLY:
        return
    by_meaning = ranked.mode is SearchMode.HYBRID
    query = QueryPart.of(
        ranked.plan.parsed.signs, wanted=ranked.wanted, by_meaning=by_meaning, nearest_known=ranked.nearest_known
    )
    of_score = query.of_score * scored.score
    total = of_score + query.total
    parts = [
        f"{query.of_score:g} times the score {scored.score:.2f} is {of_score:.2f}",
        f"{query.constant:+.2f} in every search",
        f"{query.length:+.2f} for how much the query says",
    ]
    if query.known:
        nearest = f"cosine {ranked.nearest_known or 0.0:.2f}"
        parts.append(
            f"{query.known:+.2f} for the nearest known problem of Kubernetes ({nearest}), which it may be about"
        )
    if query.pasted:
        parts.append(f"{query.pasted:+.2f} for a text that a program printed")
    if query.symptom:
        parts.append(f"{query.symptom:+.2f} for a signal that several causes have in common")
    if total > query.most:
        parts.append(f"{query.most - total:+.2f} since the query names no cause, so that several may be right")
        total = query.most
    if caution:
        parts.append(f"{-CAUTION_WEIGHT:+.2f} for the caution")
        total -= CAUTION_WEIGHT
    yield f"confidence {scored.confidence:.4f} is {total:.2f} in log odds: {', '.join(parts)}"


def _doubts(ranked: Ranked, found: CandidateEvidence | None) -> Iterator[str]:
    """What takes from the confidence of a workflow that is allowed, and is no part of its score."""
    if found is None or ranked.mode is not SearchMode.HYBRID or ranked.nearest_known is None:
        return
    nearest = max((each.evidence.cosine or 0.0 for each in ranked.order), default=0.0)
    if ranked.nearest_known >= nearest + _NEARER:
        yield (
            f"the query is nearer to a known problem of Kubernetes (cosine {ranked.nearest_known:.2f}) than to any "
            f"workflow that is allowed ({nearest:.2f}); it may be about that problem, which takes from the confidence"
        )


def _basis(ranking: Ranking) -> RankingBasis:
    ranked, plan = ranking.ranked, ranking.plan
    return RankingBasis(
        constraints=plan.constraints,
        terms=plan.terms,
        wanted=ranked.wanted,
        signal=plan.parsed.ranking_signal if "signal_type" in ranked.inferred or plan.parsed.cause else "",
        severity=plan.parsed.severity if ranked.severity_inferred else "",
        by_meaning=ranked.mode is SearchMode.HYBRID,
        reveal_custom=ranking.reveal,
    )


def _why_not_returned(ranking: Ranking, *, scored: Scored | None, place: int | None) -> str:
    """Why an allowed workflow is not on the page; empty if it is."""
    request = ranking.request
    if scored is None or place is None:
        return f"it is allowed, and further from the query than the {len(ranking.ranked.order)} that were ranked"
    if request.top_k is None and scored.fits_nothing:
        return "nothing in the query fits it: it holds no significant word, and its meaning is far away"
    if place > (limit := request.top_k or DEFAULT_TOP_K):
        return f"it is number {place}, and the answer holds {limit}"
    if scored not in [hit.scored for hit in page_of(ranking.hits, request=request)]:
        return (
            f"an answer without top_k ends before it, at a confidence below {LEAST_CONFIDENCE:g} or far below that of "
            f"the hit before; its own is {scored.confidence:.4f}"
        )
    if scored.confidence < request.min_confidence:
        return f"its confidence {scored.confidence:.4f} is below min_confidence {request.min_confidence:g}"
    return ""


def _rule(excluded: Exclusion) -> ExcludedBy:
    return ExcludedBy(rule=excluded.rule, reason=excluded.reason)


def _place_then(recorded: RecordedSearch, *, version_id: str) -> RecordedPlace | None:
    for rank, candidate in enumerate(recorded.candidates, start=1):
        if candidate.text("version_id") == version_id:
            return RecordedPlace(
                rank=rank,
                score=candidate.number("score"),
                confidence=candidate.number("confidence"),
                returned=candidate.flag("returned"),
            )
    return None


def _replay_notes(recorded: RecordedSearch | None, *, asker: str) -> list[str]:
    if recorded is None:
        return []
    notes = ["replayed on the catalog as it is now, with what you may see"]
    if recorded.caller != asker:
        notes.append(f"{recorded.caller} asked, and may have seen other namespaces")
    if recorded.own_embedding:
        notes.append("the search came with a vector of its own, which is not kept; its query was embedded instead")
    return notes
