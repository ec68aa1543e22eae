"""The hits of a search, and which of them its answer holds.

`kernel.search.pipeline` ranks and asks for the page; `services.search.explanation` says why a workflow is on it, or
not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from formulary_catalog.domain.answers.catalog import SearchMode, WorkflowHit
from formulary_catalog.domain.search.checks import Page
from formulary_catalog.domain.search.fit import Wanted
from formulary_catalog.domain.search.request import DEFAULT_TOP_K, SearchRequest
from formulary_catalog.domain.search.scoring import Scored, worth_reading
from formulary_catalog.domain.stored import StoredVersion
from formulary_catalog.kernel.manifests import ParsedWorkflow
from formulary_catalog.kernel.search.planning import SearchPlan
from formulary_catalog.store.search.statement import Candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A candidate of the page with its version and its workflow."""

    ranked: "Ranked"
    scored: Scored
    stored: StoredVersion
    parsed: ParsedWorkflow
    caution: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """The candidates of a search in order, and how they were ranked."""

    plan: SearchPlan
    candidates: Candidates
    wanted: Wanted
    mode: SearchMode
    inferred: Mapping[str, str]
    order: Sequence[Scored]
    severity_inferred: bool
    nearest_known: float | None
    """The cosine of the query and the nearest known problem, where the model has vectors of these."""
    first: Sequence[Scored]
    """Those that may be on the page: a few more than it holds, since cautions are not counted yet."""
    models: Sequence[str] = ()
    """Of the vectors that the query was compared by."""
    unreadable: int = 0
    """How many of the first this release cannot read."""


def page_of(hits: Sequence[Hit], *, request: SearchRequest) -> Sequence[Hit]:
    """Those that the answer holds: as many as were asked for, else those that are worth reading."""
    if request.top_k is not None:
        return hits[: request.top_k]
    return hits[: min(DEFAULT_TOP_K, worth_reading([hit.scored.confidence for hit in hits]))]


def best_of(pages: Sequence[Sequence[Hit]], *, limit: int) -> list[Hit]:
    """The hits on all problems of a query, the surest first: each workflow once, for the problem that it fits best.

    The first hit of each problem comes before further ones of another.
    """
    best: dict[str, Hit] = {}
    for hit in sorted(chain.from_iterable(pages), key=lambda hit: -hit.scored.confidence):
        best.setdefault(hit.stored.version_id, hit)
    firsts = {page[0].stored.version_id for page in pages if page}
    chosen = sorted(best, key=lambda version_id: version_id not in firsts)[:limit]
    return [hit for version_id, hit in best.items() if version_id in chosen]


def surest(hits: Sequence[Hit]) -> float:
    """The confidence of the first hit; 0 without any."""
    return hits[0].scored.confidence if hits else 0.0


def answering_first(kept: Sequence[tuple[WorkflowHit, Hit]]) -> Page:
    """The hits that answer the same problem as the first, with their workflows."""
    return [(shown, hit.parsed.workflow) for shown, hit in kept if hit.ranked.plan is kept[0][1].ranked.plan]
