"""What the answer to a search says beside its hits."""

from collections.abc import Iterator, Sequence

from formulary_catalog.domain.answers import WorkflowHit
from formulary_catalog.domain.labels import Constraints
from formulary_catalog.domain.request import SearchRequest, wire_name
from formulary_catalog.domain.scoring import WEAK_CONFIDENCE, SearchMode
from formulary_catalog.search.planning import SearchPlan
from formulary_catalog.store.search import Found


def search_notes(
    found: Found, *, plan: SearchPlan, request: SearchRequest, mode: SearchMode, hits: Sequence[WorkflowHit]
) -> list[str]:
    """Notes on the request, on how it was ranked, and on what is missing; `hits` are all of the page."""
    on_hits = _on_confidence(request, hits=hits) if found.pool.total else _on_emptiness(plan)
    return [*plan.notes, *_on_labels(found, plan=plan), *_on_ranking(found, request=request, mode=mode), *on_hits]


def _on_labels(found: Found, *, plan: SearchPlan) -> Iterator[str]:
    for dimension in found.unfamiliar:
        yield (
            f"no workflow you may see declares {wire_name(dimension)} {'/'.join(sorted(plan.asked[dimension]))}; "
            "check the spelling"
        )


def _on_ranking(found: Found, *, request: SearchRequest, mode: SearchMode) -> Iterator[str]:
    pool = found.pool
    if mode is SearchMode.LEXICAL:
        yield "ranked by words only: the embedding model or its vectors are not available"
    if mode is SearchMode.LABELS_ONLY:
        yield "the query holds no usable word, so the order says nothing about fit; add symptoms in words"
    if mode is SearchMode.HYBRID and pool.compared is not None and pool.compared < pool.total:
        yield f"{pool.total - pool.compared} of the allowed workflows have no vector yet: they rank low or are missing"
    if request.embedding is not None and mode is not SearchMode.HYBRID:
        yield "the given embedding was not used"


def _on_emptiness(plan: SearchPlan) -> Iterator[str]:
    if plan.constraints == Constraints(strict_keys=plan.constraints.strict_keys):
        yield "the catalog holds no workflow that you may see; load some before searching"
        return
    yield (
        "nothing is allowed under these labels and the incident's constraints; drop label arguments or "
        "exclude_keywords to widen, and do not run a workflow that was not returned"
    )


def _on_confidence(request: SearchRequest, *, hits: Sequence[WorkflowHit]) -> Iterator[str]:
    if not hits:
        return
    dropped = sum(hit.confidence < request.min_confidence for hit in hits)
    if dropped == len(hits):
        yield f"all allowed workflows are below min_confidence {request.min_confidence}; lower it to see them"
    elif dropped:
        yield f"{dropped} of this page are below min_confidence {request.min_confidence} and left out"
    if hits[0].confidence < WEAK_CONFIDENCE:
        yield "weak match: perhaps nothing here fits; read when_to_use in the details before choosing"
