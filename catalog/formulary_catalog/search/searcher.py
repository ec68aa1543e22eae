"""One search from request to answer: context, plan, vector, pool, ranking, notes."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

from opentelemetry import trace

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers import SearchAnswer, WorkflowHit
from formulary_catalog.domain.choosing import what_to_check
from formulary_catalog.domain.presenting import match_reasons, not_invocable_notes, workflow_hit
from formulary_catalog.domain.request import SearchRequest
from formulary_catalog.domain.scoring import Scored, SearchMode
from formulary_catalog.domain.sealing import KeyedDigest
from formulary_catalog.domain.workflow import RemediationWorkflow
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.applied import applied_constraints
from formulary_catalog.search.notes import search_notes
from formulary_catalog.search.parsed import ParsedWorkflow, ParsedWorkflows
from formulary_catalog.search.planning import SearchPlan, plan_search
from formulary_catalog.search.ranking import NotEmbedded, Ranking
from formulary_catalog.search.scope import Scope, Scoping
from formulary_catalog.search.trail import Record
from formulary_catalog.search.vectors import QueryVectors
from formulary_catalog.store.page import PageRow
from formulary_catalog.store.search import Found, SearchStore

Fit = Callable[[SearchAnswer], SearchAnswer]
"""Makes an answer fit its edge. Applied before the audit row is written, so that the row tells what left."""
_tracer = trace.get_tracer("formulary")


class Searcher:
    """Runs searches. Without an embedder it ranks by words and says so."""

    def __init__(
        self,
        *,
        store: SearchStore,
        scoping: Scoping,
        vectors: QueryVectors,
        parsed: ParsedWorkflows,
        strict_keys: frozenset[str],
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._scoping = scoping
        self._vectors = vectors
        self._parsed = parsed
        self._strict_keys = strict_keys
        self._metrics = metrics

    async def search(
        self,
        request: SearchRequest,
        *,
        caller: Caller,
        search_id: UUID,
        record: Record,
        digest: KeyedDigest,
        fit: Fit,
    ) -> SearchAnswer:
        """The answer as `fit` leaves it; `record` is filled for the audit trail on the way.

        Raises:
            ContextError, NotAllowed, InvalidInput, Unavailable: nothing may be returned.
        """
        with self._phase("context"):
            scope = await self._scoping.of(request.context, caller=caller, record=record)

        def plan(first_word_is_signal: bool) -> SearchPlan:
            return plan_search(
                request,
                context=scope.context,
                first_word_is_signal=first_word_is_signal,
                strict_keys=self._strict_keys,
            )

        expected = self._store.counts_as_signal(request.query, namespaces=scope.namespaces)
        ranking = Ranking(plan=plan, expected=expected, parsed=self._parsed, top_k=request.top_k)
        found = await self._find(request, ranking=ranking, scope=scope, expected=expected)
        page = ranking.workflows(found)
        hits = [
            _hit(scored, workflow=parsed.workflow, ranking=ranking, row=found.rows[scored.evidence.version_id])
            for scored, parsed in page
        ]
        compared = [
            (hit, parsed.workflow)
            for hit, (_, parsed) in zip(hits, page, strict=True)
            if hit.confidence >= request.min_confidence
        ]
        kept = [hit for hit, _ in compared]
        answer = fit(
            SearchAnswer(
                workflows=kept,
                total_results=found.pool.total - len(ranking.scored) + len(page),
                search_mode=ranking.mode,
                notes=[
                    *search_notes(found, plan=ranking.chosen, request=request, mode=ranking.mode, hits=hits),
                    *what_to_check(compared),
                    *not_invocable_notes(_not_invocable(page, hits=kept)),
                ],
                search_id=str(search_id),
            )
        )
        record.mode = ranking.mode
        parsed_query = ranking.chosen.parsed
        record.constraints = applied_constraints(
            request,
            context=scope.context,
            constraints=ranking.chosen.constraints,
            inferred={"signal_type": parsed_query.signal_type, "severity": parsed_query.severity},
            notes=answer.notes,
            digest=digest,
        )
        record.result = _audited(
            page,
            ranking=ranking,
            total=answer.total_results,
            hits=hits,
            returned={hit.version_id for hit in answer.workflows},
        )
        return answer

    async def _find(self, request: SearchRequest, *, ranking: Ranking, scope: Scope, expected: bool) -> Found:
        """What the store finds, with the query embedded as its first word is `expected` to be: a signal type or none.

        As it was understood last, for most often it still is: to embed the query both ways takes twice as long.
        """
        search = partial(
            self._store.search,
            query=request.query,
            plan=ranking.plan,
            page=ranking.page,
            known=ranking.known,
            namespaces=scope.namespaces,
        )
        await self._embed(request, ranking=ranking, first_word=(expected,))
        with self._phase("sql"):
            try:
                return await search()
            except NotEmbedded:
                pass  # within the phase, which has not failed
        await self._embed(request, ranking=ranking, first_word=(False, True))
        with self._phase("sql"):
            return await search()

    async def _embed(self, request: SearchRequest, *, ranking: Ranking, first_word: Iterable[bool]) -> None:
        """The vectors of the query whose first word is a signal type, is none, or may be either."""
        with self._phase("embed"):
            texts = {ranking.text(is_signal) for is_signal in first_word}
            ranking.vectors = await self._vectors.of(texts, given=request.embedding)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            with _tracer.start_as_current_span(f"formulary.search.{name}"):
                yield
        finally:
            self._metrics.observe_phase(name, time.perf_counter() - started)


def _hit(scored: Scored, *, workflow: RemediationWorkflow, ranking: Ranking, row: PageRow) -> WorkflowHit:
    evidence = scored.evidence
    cosine = evidence.cosine if ranking.mode is SearchMode.HYBRID else None
    return workflow_hit(
        workflow,
        namespace=evidence.namespace,
        version_id=evidence.version_id,
        ambiguous=row.ambiguous,
        cosine=cosine,
        confidence=scored.confidence,
        outcome=row.outcome,
        reasons=match_reasons(
            workflow,
            constraints=ranking.chosen.constraints,
            terms=ranking.chosen.terms,
            weights=ranking.weights,
            places=evidence.places,
            cosine=cosine,
        ),
    )


def _not_invocable(page: Sequence[tuple[Scored, ParsedWorkflow]], *, hits: Sequence[WorkflowHit]) -> list[str]:
    """Which of the hits can be read and not run."""
    unrunnable = {scored.evidence.version_id for scored, parsed in page if parsed.not_invocable_because}
    return [hit.workflow_id for hit in hits if hit.version_id in unrunnable]


def _audited(
    page: Sequence[tuple[Scored, ParsedWorkflow]],
    *,
    ranking: Ranking,
    total: int,
    hits: Sequence[WorkflowHit],
    returned: Collection[str],
) -> dict[str, Any]:
    return {
        "total": total,
        "terms": [term.word for term in ranking.chosen.terms],
        "models": ranking.models,
        "candidates": [
            {
                "workflow": f"{scored.evidence.namespace}/{scored.evidence.name}@{hit.version}",
                "version_id": hit.version_id,
                "generic_labels": scored.evidence.generic_labels,
                "confirmed_labels": scored.evidence.confirmed_labels,
                "cosine": scored.evidence.cosine,
                "places": "".join(f"{place:d}" for place in scored.evidence.places),
                "score": scored.score,
                "confidence": hit.confidence,
                "match_reasons": hit.match_reasons,
                "returned": hit.version_id in returned,
            }
            for (scored, _), hit in zip(page, hits, strict=True)
        ],
    }
