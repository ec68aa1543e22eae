"""One search from request to answer: context, plan, vector, statement, confidence, notes."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import structlog
from opentelemetry import trace

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers import SearchAnswer, WorkflowHit
from formulary_catalog.domain.labels import Constraints
from formulary_catalog.domain.presenting import match_reasons, not_invocable_notes, workflow_hit
from formulary_catalog.domain.query import first_word, is_canonical
from formulary_catalog.domain.request import SearchRequest, wire_name
from formulary_catalog.domain.scoring import SearchMode, confidence, strength
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.parsed import ParsedWorkflows
from formulary_catalog.search.planning import SearchPlan, plan_search
from formulary_catalog.search.scope import Scoping
from formulary_catalog.search.trail import Record
from formulary_catalog.store.search import Candidate, Plan, RankQuery, SearchPage, SearchStore

WEAK_CONFIDENCE = 0.35
Fit = Callable[[SearchAnswer], SearchAnswer]
"""Makes an answer fit its edge. Applied before the audit row is written, so that the row tells what left."""
_log = structlog.get_logger(__name__)
_tracer = trace.get_tracer("formulary")


class Searcher:
    """Runs searches. Without an embedder it ranks by words and says so."""

    def __init__(
        self,
        *,
        store: SearchStore,
        scoping: Scoping,
        parsed: ParsedWorkflows,
        strict_keys: frozenset[str],
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._parsed = parsed
        self._scoping = scoping
        self._strict_keys = strict_keys
        self._metrics = metrics
        self.embedder: Embedder | None = None
        self.embedder_works = True

    async def search(
        self, request: SearchRequest, *, caller: Caller, search_id: UUID, record: Record, fit: Fit
    ) -> SearchAnswer:
        """The answer as `fit` leaves it; `record` is filled for the audit trail on the way.

        Raises:
            ContextError, NotAllowed, InvalidInput, Unavailable: nothing may be returned.
        """
        with self._phase("context"):
            scope = await self._scoping.of(request.context, caller=caller, record=record)
        plans = {
            is_signal: plan_search(
                request, context=scope.context, first_word_is_signal=is_signal, strict_keys=self._strict_keys
            )
            for is_signal in ((True,) if is_canonical(first_word(request.query)) else (False, True))
        }
        with self._phase("embed"):
            rankings = await self._rankings(request, texts={plan.parsed.text for plan in plans.values()})
        chosen = next(iter(plans.values()))

        def decide(is_signal: bool) -> Plan:
            nonlocal chosen
            chosen = plans[is_signal]
            return Plan(constraints=chosen.constraints, asked=chosen.asked, rank=rankings[chosen.parsed.text])

        with self._phase("sql"):
            found = await self._store.search(
                query=request.query, plan=decide, namespaces=scope.namespaces, limit=request.top_k
            )
        page = self._readable(found)
        hits = self._hits(page, constraints=chosen.constraints)
        kept = [hit for hit in hits if hit.confidence >= request.min_confidence]
        answer = fit(
            SearchAnswer(
                workflows=kept,
                total_results=page.total,
                search_mode=page.mode,
                notes=[
                    *_notes(page, plan=chosen, request=request, hits=hits, dropped=len(hits) - len(kept)),
                    *self._warnings(page, kept=kept),
                ],
                search_id=str(search_id),
            )
        )
        record.mode = page.mode
        record.result = _audited(page, hits=hits, returned={hit.version_id for hit in answer.workflows})
        return answer

    async def _rankings(self, request: SearchRequest, *, texts: Iterable[str]) -> Mapping[str, RankQuery]:
        """What to rank by for each text; text alone where no vector can be had."""
        return {text: await self._ranking(text, given=request.embedding) for text in texts}

    async def _ranking(self, text: str, *, given: tuple[float, ...] | None) -> RankQuery:
        embedder = self.embedder
        if embedder is None:
            return RankQuery(text=text)
        if given is not None:
            return RankQuery(text=text, vector=_unit(given), model_id=embedder.model_id)
        try:
            vector = await asyncio.to_thread(embedder.embed_query, text)
        except EmbedderUnavailable as error:
            _log.warning("embedder_failed", reason=str(error))
            self._embedder_works(False)
            return RankQuery(text=text)
        self._embedder_works(True)
        return RankQuery(text=text, vector=vector, model_id=embedder.model_id)

    def _embedder_works(self, works: bool) -> None:
        if works is not self.embedder_works:
            self.embedder_works = works
            self._metrics.set_embedder_up(works)

    def _readable(self, page: SearchPage) -> SearchPage:
        kept = tuple(
            candidate
            for candidate in page.candidates
            if self._parsed.readable(candidate.version_id, candidate.document)
        )
        return replace(page, candidates=kept, total=page.total - len(page.candidates) + len(kept))

    def _hits(self, page: SearchPage, *, constraints: Constraints) -> list[WorkflowHit]:
        if not page.candidates:
            return []
        best = page.candidates[0]
        best_strength = strength(
            mode=page.mode, cosine=best.cosine, word_coverage=len(best.matched_words) / max(page.usable_words, 1)
        )
        return [
            self._hit(
                candidate,
                mode=page.mode,
                constraints=constraints,
                confident=confidence(
                    best_strength=best_strength,
                    score=candidate.score,
                    generic_labels=candidate.generic_labels,
                    fewest_generic_labels=best.generic_labels,
                ),
            )
            for candidate in page.candidates
        ]

    def _hit(
        self, candidate: Candidate, *, mode: SearchMode, constraints: Constraints, confident: float
    ) -> WorkflowHit:
        workflow = self._parsed.get(candidate.version_id, candidate.document).workflow
        cosine = candidate.cosine if mode is SearchMode.HYBRID else None
        return workflow_hit(
            workflow,
            namespace=candidate.namespace,
            version_id=candidate.version_id,
            ambiguous=candidate.ambiguous,
            cosine=cosine,
            confidence=confident,
            outcome=candidate.outcome,
            reasons=match_reasons(
                workflow, constraints=constraints, matched_words=candidate.matched_words, cosine=cosine
            ),
        )

    def _warnings(self, page: SearchPage, *, kept: list[WorkflowHit]) -> list[str]:
        """That some of what is returned can be read and not run."""
        unrunnable = {
            candidate.version_id
            for candidate in page.candidates
            if self._parsed.get(candidate.version_id, candidate.document).not_invocable_because
        }
        return not_invocable_notes([hit.workflow_id for hit in kept if hit.version_id in unrunnable])

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            with _tracer.start_as_current_span(f"formulary.search.{name}"):
                yield
        finally:
            self._metrics.observe_phase(name, time.perf_counter() - started)


def _unit(vector: tuple[float, ...]) -> npt.NDArray[np.float32]:
    array = np.asarray(vector, dtype=np.float64)
    array /= np.abs(array).max()  # else very large or very small numbers leave the range when they are squared
    return (array / np.linalg.norm(array)).astype(np.float32)


def _notes(
    page: SearchPage, *, plan: SearchPlan, request: SearchRequest, hits: list[WorkflowHit], dropped: int
) -> list[str]:
    notes = list(plan.notes)
    notes += [
        f"no workflow you may see declares {wire_name(dimension)} {'/'.join(sorted(plan.asked[dimension]))}; "
        "check the spelling"
        for dimension in page.unfamiliar
    ]
    if page.mode is SearchMode.LEXICAL:
        notes.append("ranked by words only: the embedding model or its vectors are not available")
    if page.mode is SearchMode.LABELS_ONLY:
        notes.append("the query holds no usable word, so the order says nothing about fit; add symptoms in words")
    if request.embedding is not None and page.mode is not SearchMode.HYBRID:
        notes.append("the given embedding was not used")
    unconstrained = plan.constraints == Constraints(strict_keys=plan.constraints.strict_keys)
    if page.total == 0 and unconstrained:
        notes.append("the catalog holds no workflow that you may see; load some before searching")
    elif page.total == 0:
        notes.append(
            "nothing is allowed under these labels and the incident's constraints; drop label arguments or "
            "exclude_keywords to widen, and do not run a workflow that was not returned"
        )
    elif dropped == len(hits):
        notes.append(f"all allowed workflows are below min_confidence {request.min_confidence}; lower it to see them")
    elif dropped:
        notes.append(f"{dropped} of this page are below min_confidence {request.min_confidence} and left out")
    elif hits[0].confidence < WEAK_CONFIDENCE:
        notes.append("weak match: read when_to_use in the details before choosing; perhaps nothing here fits")
    return notes


def _audited(page: SearchPage, *, hits: list[WorkflowHit], returned: Collection[str]) -> dict[str, Any]:
    return {
        "total": page.total,
        "candidates": [
            {
                "workflow": f"{candidate.namespace}/{candidate.name}@{hit.version}",
                "version_id": candidate.version_id,
                "generic_labels": candidate.generic_labels,
                "cosine": candidate.cosine,
                "lexical": candidate.lexical,
                "score": candidate.score,
                "confidence": hit.confidence,
                "match_reasons": hit.match_reasons,
                "returned": candidate.version_id in returned,
            }
            for candidate, hit in zip(page.candidates, hits, strict=True)
        ],
    }
