"""One search from request to answer: scope, plan, vectors, candidates, ranking, page, answer.

`services.search.service` calls it for every edge. Each step takes what the step before returned; nothing calls back.
What the caller may see and what the incident allows is decided in the first statement, so no later step can widen it.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import structlog

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.answer_size import within
from formulary_catalog.domain.answers.catalog import SearchAnswer, SearchMode, WorkflowHit
from formulary_catalog.domain.audit.sealing import KeyedDigest
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.caution import QueryWords, caution, cautioned
from formulary_catalog.domain.search.checks import names_to_check, what_to_check
from formulary_catalog.domain.search.fit import Wanted
from formulary_catalog.domain.search.query import as_declared
from formulary_catalog.domain.search.request import DEFAULT_TOP_K, SearchRequest
from formulary_catalog.domain.search.results import match_reasons, matched_section, not_invocable_notes, workflow_hit
from formulary_catalog.domain.search.scoring import Scored, rank
from formulary_catalog.domain.search.terms import rare_words
from formulary_catalog.domain.stored import StoredVersion
from formulary_catalog.embedding.known_problems import nearest_known
from formulary_catalog.kernel.lookup import WorkflowFinder
from formulary_catalog.kernel.manifests import ParsedWorkflow, ParsedWorkflows
from formulary_catalog.kernel.search.notes import Halted, halted_notes, on_problems, search_notes
from formulary_catalog.kernel.search.page import Hit, Ranked, answering_first, best_of, page_of, surest
from formulary_catalog.kernel.search.phases import Phases, measured
from formulary_catalog.kernel.search.planning import SearchPlan, applied_constraints, plan_search
from formulary_catalog.kernel.search.vectors import QueryVectors
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import Visibility
from formulary_catalog.metrics import Metrics
from formulary_catalog.store.search.distances import ModelVector
from formulary_catalog.store.search.page import PageReader
from formulary_catalog.store.search.statement import CandidateQuery, CandidateReader, Candidates
from formulary_catalog.store.workflows.names import Declared, NameReader

_LOOKED_AT = 20
"""So many are looked at for cautions, if the page holds no more: which hit is first does not depend on `top_k`."""
_LONGEST = 9999
"""Milliseconds that a search takes at most, with as many digits."""
_READS = 2
"""Once more if the catalog changed between two statements."""
_log = structlog.get_logger(__name__)


class Searcher:
    """Runs searches. Without an embedder it ranks by words and says so."""

    def __init__(
        self,
        *,
        candidates: CandidateReader,
        pages: PageReader,
        visibility: Visibility,
        vectors: QueryVectors,
        finder: WorkflowFinder,
        names: NameReader,
        parsed: ParsedWorkflows,
        halted: Halted,
        strict_keys: frozenset[str],
        metrics: Metrics,
    ) -> None:
        self._candidates = candidates
        self._halted = halted
        self._pages = pages
        self._visibility = visibility
        self._vectors = vectors
        self._finder = finder
        self._names = names
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
        browsing: bool = False,
    ) -> SearchAnswer:
        """The answer to a search; `record` is filled for the audit trail on the way. `browsing` as `Visibility.of`.

        Raises:
            ContextError, NotAllowed, InvalidInput, Unavailable: nothing may be returned.
        """
        started = time.perf_counter()
        with measured(self._metrics) as phases:
            with phases.of("context"):
                scope = await self._visibility.of(request.context, caller=caller, record=record, browsing=browsing)
            plan = plan_search(request, context=scope.context, strict_keys=self._strict_keys)
            problems = plan.by_problem() if request.embedding is None else [plan]
            found = [
                await self._find(request, plan=each, namespaces=scope.namespaces, phases=phases) for each in problems
            ]
            ranked = found[0][0]
            hits = best_of([page_of(each, request=request) for _, each in found], limit=request.top_k or DEFAULT_TOP_K)
            modes = {each.mode for each, _ in found}
            shown = [(_shown(hit, several=len(found) > 1), hit) for hit in hits]
            kept = [(each, hit) for each, hit in shown if each.confidence >= request.min_confidence]
            page = answering_first(kept)
            mode = SearchMode.LEXICAL if SearchMode.LEXICAL in modes else ranked.mode
            with phases.of("sql"):
                unfamiliar = await self._candidates.unfamiliar(
                    {dimension: plan.asked[dimension] for dimension in ranked.candidates.undeclared},
                    constraints=plan.imposed,
                    namespaces=scope.namespaces,
                )
                unknown = []
                quotable = None
                if scope.context is not None:
                    quotable = await self._names.allowed(
                        names_to_check(page), constraints=plan.imposed, namespaces=scope.namespaces
                    )
                if not ranked.candidates.total:
                    narrowed = plan.narrowing
                    given = {Declared.ACTION_TYPE: narrowed.action_type, Declared.NAMESPACE: narrowed.namespace}
                    unknown = await self._finder.unknown_values(given, scope=scope)
        answer = SearchAnswer(
            workflows=[each for each, _ in kept],
            total_results=ranked.candidates.total - ranked.unreadable,
            search_mode=mode,
            notes=[
                *halted_notes(await self._halted.of(scope.context)),
                *plan.notes,
                *unknown,
                *on_problems([(each.plan.parsed, surest(of_it)) for each, of_it in found], query=request.query),
                *search_notes(
                    ranked.candidates,
                    plan=plan,
                    request=request,
                    mode=mode,
                    unfamiliar=unfamiliar,
                    hits=[each for each, _ in shown],
                ),
                *what_to_check(page, query=kept[0][1].ranked.plan.parsed.text if kept else "", allowed=quotable),
                *not_invocable_notes([each.workflow_id for each, hit in kept if hit.parsed.not_invocable_because]),
            ],
            search_id=str(search_id),
            time_ms=_LONGEST,
            **({"inferred": dict(ranked.inferred)} if ranked.inferred else {}),
        )
        if request.max_bytes is not None:
            answer = within(answer, limit=request.max_bytes)
        # Put in last: what fits into an answer must not depend on how long it took.
        answer = answer.model_copy(update={"time_ms": round((time.perf_counter() - started) * 1000)})
        record.mode = mode
        record.constraints = applied_constraints(
            request,
            context=scope.context,
            constraints=plan.constraints,
            inferred=ranked.inferred,
            notes=answer.notes,
            digest=digest,
        )
        record.result = _audited(
            shown, plan=plan, models=ranked.models, returned={each.version_id for each in answer.workflows}, of=answer
        )
        return answer

    async def ranking(
        self, request: SearchRequest, *, plan: SearchPlan, namespaces: frozenset[str] | None
    ) -> tuple[Ranked, list[Hit]]:
        """The candidates of a search in order, and the first with their workflows, to be explained.

        Raises:
            Unavailable: the database does not answer.
        """
        return await self._find(request, plan=plan, namespaces=namespaces, phases=Phases())

    async def evidence_of(
        self, version_id: str, *, request: SearchRequest, plan: SearchPlan, namespaces: frozenset[str] | None
    ) -> CandidateEvidence | None:
        """What speaks for one workflow in a search; None where it is not allowed.

        Raises:
            Unavailable: the database does not answer.
        """
        vector = await self._vectors.of(plan.parsed.text, given=request.embedding)
        question = replace(_question(plan, vector=vector), only=version_id)
        found = await self._candidates.read(question, namespaces=namespaces)
        return next(iter(found.evidence), None)

    async def _find(
        self,
        request: SearchRequest,
        *,
        plan: SearchPlan,
        namespaces: frozenset[str] | None,
        phases: Phases,
    ) -> tuple[Ranked, list[Hit]]:
        """The candidates in order, and the first with their workflows; again if the catalog changed in between."""
        with phases.of("embed"):
            vector = await self._vectors.of(plan.parsed.text, given=request.embedding)
        question = _question(plan, vector=vector)
        nearest = nearest_known(vector.values, model_id=vector.model_id) if vector else None
        for _ in range(_READS):
            with phases.of("sql"):
                candidates = await self._candidates.read(question, namespaces=namespaces)
            with phases.of("rank"):
                ranked = _ranked(candidates, plan=plan, request=request, nearest=nearest)
            ids = [scored.evidence.version_id for scored in ranked.first]
            known = {id_: parsed for id_ in ids if (parsed := self._parsed.cached(id_)) is not None}
            versions = candidates.versions
            documents: Mapping[str, Mapping[str, Any]] = {}
            if not versions or len(known) < len(ids):
                with phases.of("sql"):
                    versions, documents = await self._pages.read(
                        ids, known=known, namespaces=namespaces, imposed=plan.imposed
                    )
            if candidates.whole and versions.keys() >= set(ids):
                break
        with phases.of("rank"):
            for id_, document in documents.items():
                if (parsed := self._parsed.get(id_, document)) is not None:
                    known[id_] = parsed
            workflows = [*_workflows(ranked.first, versions=versions, parsed=known)]
            declared = (each for _, _, parsed in workflows for each in parsed.workflow.spec.labels.signal_type)
            ranked = replace(
                ranked,
                inferred=as_declared(ranked.inferred, declared=declared),
                models=[vector.model_id] if vector else [],
                unreadable=len(ranked.first) - len(workflows),
            )
            asked = plan.parsed.text if plan.parsed.pasted else request.query
            said = QueryWords.of(asked, wanted=ranked.wanted, terms=plan.terms)
            hits = [_hit(*each, ranked=ranked, said=said) for each in workflows]
        return ranked, sorted(hits, key=lambda hit: -hit.scored.confidence)  # only a caution changes the order


def _question(plan: SearchPlan, *, vector: ModelVector | None) -> CandidateQuery:
    return CandidateQuery(
        constraints=plan.constraints,
        imposed=plan.imposed,
        narrowing=plan.narrowing,
        words=_words(plan),
        rare=rare_words(plan.terms),
        vector=vector,
        signal=plan.parsed.ranking_signal,
        severity=plan.parsed.severity,
        alert=plan.parsed.alert,
        asked=plan.asked,
    )


def _ranked(candidates: Candidates, *, plan: SearchPlan, request: SearchRequest, nearest: float | None) -> Ranked:
    """The candidates in order. Without `top_k` only those that fit the query are first."""
    inferred = plan.parsed.inferred(signal_declared=candidates.signal_declared)
    wanted = Wanted.of(plan.terms, usable=candidates.usable)
    mode = _mode(candidates)
    severity_inferred = "severity" in inferred and "severity" not in plan.constraints.values
    order = rank(
        candidates.evidence,
        wanted=wanted,
        mode=mode,
        severity_inferred=severity_inferred,
        nearest_known=nearest,
        signs=plan.parsed.signs,
    )
    fitting = order if request.top_k is not None else [each for each in order if not each.fits_nothing]
    first = fitting[: max(_LOOKED_AT, (request.top_k or DEFAULT_TOP_K) + DEFAULT_TOP_K)]
    return Ranked(
        plan=plan,
        candidates=candidates,
        wanted=wanted,
        mode=mode,
        inferred=inferred,
        order=order,
        severity_inferred=severity_inferred,
        nearest_known=nearest,
        first=first,
    )


def _workflows(
    first: Sequence[Scored], *, versions: Mapping[str, StoredVersion], parsed: Mapping[str, ParsedWorkflow]
) -> Iterator[tuple[Scored, StoredVersion, ParsedWorkflow]]:
    """Those with an active version that this release can read."""
    for scored in first:
        version_id = scored.evidence.version_id
        if version_id not in versions:
            _log.warning("served_workflow_without_version", version_id=version_id)
        elif version_id in parsed:
            yield scored, versions[version_id], parsed[version_id]


def _hit(scored: Scored, stored: StoredVersion, parsed: ParsedWorkflow, *, ranked: Ranked, said: QueryWords) -> Hit:
    warning = caution(parsed.indicated, said)
    if warning:
        scored = scored._replace(confidence=cautioned(scored.confidence))
    return Hit(ranked=ranked, scored=scored, stored=stored, parsed=parsed, caution=warning)


def _mode(candidates: Candidates) -> SearchMode:
    if not any(candidates.usable):
        return SearchMode.LABELS_ONLY
    return SearchMode.LEXICAL if candidates.compared is None else SearchMode.HYBRID


def _shown(hit: Hit, *, several: bool) -> WorkflowHit:
    """`several`: whether the query reports several problems, so that it has to be said which one this answers."""
    ranked, plan = hit.ranked, hit.ranked.plan
    evidence, workflow = hit.scored.evidence, hit.parsed.workflow
    cosine = evidence.cosine if ranked.mode is SearchMode.HYBRID else None
    reasons = match_reasons(
        workflow,
        constraints=plan.constraints,
        inferred=ranked.inferred,
        terms=plan.terms,
        places=evidence.places,
        cosine=cosine,
    )
    if several and plan.parsed.problem:
        reasons.insert(0, f"answers {plan.parsed.problem}")
    return workflow_hit(
        workflow,
        stored=hit.stored,
        cosine=cosine,
        confidence=hit.scored.confidence,
        caution=hit.caution,
        reasons=reasons,
        section=matched_section(plan.terms, places=evidence.places),
    )


def _audited(
    shown: Sequence[tuple[WorkflowHit, Hit]],
    *,
    plan: SearchPlan,
    models: Sequence[str],
    returned: Collection[str],
    of: SearchAnswer,
) -> dict[str, Any]:
    return {
        "total": of.total_results,
        "terms": _words(plan),
        "models": models,
        "candidates": [
            {
                "workflow": f"{hit.stored.namespace}/{hit.stored.name}@{each.version}",
                "version_id": each.version_id,
                "labels": hit.scored.evidence.labels,
                "severity": hit.scored.evidence.severity,
                "cosine": hit.scored.evidence.cosine,
                **({"terms": _words(hit.ranked.plan)} if hit.ranked.plan is not plan else {}),
                "places": "".join(f"{place:d}" for place in hit.scored.evidence.places),
                "score": hit.scored.score,
                "confidence": each.confidence,
                "match_reasons": each.match_reasons,
                "returned": each.version_id in returned,
            }
            for each, hit in shown
        ],
    }


def _words(plan: SearchPlan) -> list[str]:
    return [term.word for term in plan.terms]
