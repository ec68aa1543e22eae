"""Why a workflow is in the answer to a search, and why not: for a new search, or one that the trail recorded.

REST and the command line call it. It plans and ranks as `search/pipeline` does and asks the pure rules of
`domain/workflows/exclusion` and `explanation` for their words. A recorded search is done again under the constraints
that were sealed with it. A workflow that the caller may not see is not found, whatever excludes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from formulary_catalog.domain.access import USE_CONTEXTS, Caller
from formulary_catalog.domain.answers import SearchMode
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.explained import (
    EvidencePart,
    ExcludedBy,
    Explanation,
    FirstWorkflow,
    NeededChange,
    RecordedPlace,
)
from formulary_catalog.domain.search.explanation import Asked, changes_to_be_first, evidence_of
from formulary_catalog.domain.search.request import DEFAULT_TOP_K, ContextReference, SearchRequest
from formulary_catalog.domain.search.scoring import SCORE_DIGITS, Scored
from formulary_catalog.domain.stored import HistoryLine, StoredVersion
from formulary_catalog.domain.workflows.exclusion import Exclusion, exclusions, narrowed_out, unserved
from formulary_catalog.domain.workflows.identity import WorkflowReference, parse_reference
from formulary_catalog.domain.workflows.labels import fold
from formulary_catalog.errors import InvalidInput, UnknownWorkflow
from formulary_catalog.search.audit import Record
from formulary_catalog.search.manifests import ParsedWorkflow
from formulary_catalog.search.parts import CatalogParts
from formulary_catalog.search.pipeline import Hit, Ranked, Searcher
from formulary_catalog.search.planning import SearchPlan, plan_search
from formulary_catalog.search.recorded import RecordedSearch, RecordedSearches
from formulary_catalog.search.visibility import CallScope

_ACTION = "read.explain"
_NO_INCIDENT = ContextReference()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """The workflow that is asked about."""

    stored: StoredVersion
    history: Sequence[HistoryLine]
    parsed: ParsedWorkflow

    @property
    def name(self) -> str:
        return f"{self.stored.namespace}/{self.stored.name}"

    @property
    def served(self) -> str:
        """The version that is served; empty if none is."""
        return next((line.version for line in self.history if line.status == "Active"), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranking:
    """A search as it is ranked now, and the workflow in it: its place from 1, or its evidence alone, or neither."""

    ranked: Ranked
    hits: Sequence[Hit]
    order: Sequence[Scored]
    rank: int | None
    evidence: CandidateEvidence | None


class Explaining:
    """Explains; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts, *, searcher: Searcher, strict_keys: frozenset[str]) -> None:
        self._parts = parts
        self._searcher = searcher
        self._strict_keys = strict_keys
        self._recorded = RecordedSearches(parts.database, traces=parts.traces)

    async def of_search(self, workflow_id: str, request: SearchRequest, *, caller: Caller) -> Explanation:
        """Why a workflow is in the answer to this search, and why not. People need no incident.

        Raises:
            NotFound: no workflow of that name is visible to this search.
            InvalidInput: the name is malformed, or needs a namespace.
            ContextError, NotAllowed, Unavailable: as a search.
        """
        arguments = {
            "workflow_id": workflow_id,
            "query": request.query,
            "labels": {name: list(values) for name, values in request.labels.items()},
            "exclude_keywords": list(request.exclude_keywords),
        }
        reference = request.context
        async with self._parts.trail.record(_ACTION, caller=caller, reference=reference, arguments=arguments) as record:
            wanted = parse_reference(workflow_id)
            scope = await self._parts.visibility.of(reference, caller=caller, record=record, browsing=True)
            return await self._explained(wanted, request, scope=scope, caller=caller, record=record)

    async def of_recorded(self, workflow_id: str, search_id: str, *, caller: Caller) -> Explanation:
        """Why a workflow was in the answer to a recorded search, and why not, as the catalog is now.

        Raises:
            NotFound: no search of that id is readable, or no workflow of that name is visible to it.
            InvalidInput: the name is malformed, or needs a namespace; the search cannot be done again.
            NotAllowed, Unavailable: as a search.
        """
        arguments = {"workflow_id": workflow_id, "search_id": search_id}
        async with self._parts.trail.record(
            _ACTION, caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            wanted = parse_reference(workflow_id)
            found = await self._recorded.find(search_id, caller=caller)
            record.trace_id = found.trace_id
            scope = await self._parts.visibility.within(found.incident, caller=caller)
            return await self._explained(
                wanted, found.request, scope=scope, caller=caller, record=record, recorded=found
            )

    async def _explained(
        self,
        wanted: WorkflowReference,
        request: SearchRequest,
        *,
        scope: CallScope,
        caller: Caller,
        record: Record,
        recorded: RecordedSearch | None = None,
    ) -> Explanation:
        plan = plan_search(request, context=scope.context, strict_keys=self._strict_keys)
        subject = await self._subject(wanted, scope=scope)
        reveal = await _may_read(scope.context, caller=caller)
        excluded = _excluded(subject, plan=plan, reveal=reveal)
        ranking = await self._ranking(subject, request, plan=plan, scope=scope, allowed=not excluded)
        record.mode = ranking.ranked.mode
        record.result = {
            "version_id": subject.stored.version_id,
            "rank": ranking.rank,
            # Not the reason: it may name a custom label.
            "excluded_by": excluded[0].rule if excluded else "",
        }
        return _explanation(
            subject,
            request,
            plan=plan,
            ranking=ranking,
            excluded=excluded,
            reveal=reveal,
            recorded=recorded,
            asker=caller.name,
        )

    async def _subject(self, wanted: WorkflowReference, *, scope: CallScope) -> _Subject:
        """The workflow that is meant among those that are visible, whatever excludes it; suspended ones too."""
        versions = await self._parts.workflows.find(wanted, namespaces=scope.namespaces, suspended=True)
        found = [
            _Subject(stored=stored, history=history, parsed=parsed)
            for stored, history in versions
            if (parsed := self._parts.parsed.get(stored.version_id, stored.document)) is not None
        ]
        if not found:
            nearest = await self._parts.finder.nearest(wanted.name, scope=replace(scope, context=None))
            raise UnknownWorkflow(str(wanted), nearest=nearest)
        if len(found) > 1:
            names = ", ".join(each.name for each in found)
            raise InvalidInput(
                f"workflow {str(wanted)!r} exists in {len(found)} namespaces; name one: {names}", field="workflow"
            )
        return found[0]

    async def _ranking(
        self, subject: _Subject, request: SearchRequest, *, plan: SearchPlan, scope: CallScope, allowed: bool
    ) -> _Ranking:
        ranked, hits = await self._searcher.ranking(request, plan=plan, namespaces=scope.namespaces)
        looked_at = {scored.evidence.version_id for scored in ranked.first}
        rest = [scored for scored in ranked.order if scored.evidence.version_id not in looked_at]
        order = [*(hit.scored for hit in hits), *rest]
        version_id = subject.stored.version_id
        rank = next((number for number, each in enumerate(order, 1) if each.evidence.version_id == version_id), None)
        evidence = order[rank - 1].evidence if rank is not None else None
        if allowed and rank is None:
            evidence = await self._searcher.evidence_of(
                version_id, request=request, plan=plan, namespaces=scope.namespaces
            )
        return _Ranking(ranked=ranked, hits=hits, order=order, rank=rank, evidence=evidence)


def _excluded(subject: _Subject, *, plan: SearchPlan, reveal: bool) -> list[Exclusion]:
    """The rules that exclude it, in the order in which they are checked."""
    stored, parsed = subject.stored, subject.parsed
    found = []
    if stored.status != "Active":
        found.append(unserved(stored.status, version=stored.version, served=subject.served))
    found += exclusions(parsed.labels, plan.constraints, imposed=plan.imposed, reveal_custom=reveal)
    found += narrowed_out(
        parsed.labels, plan.narrowing, namespace=stored.namespace, action_type=parsed.workflow.spec.action_type
    )
    return found


async def _may_read(context: RequestContext | None, *, caller: Caller) -> bool:
    """Whether the caller may know which custom labels the incident has."""
    if context is None:
        return True
    return await caller.access.allows(USE_CONTEXTS, namespace=context.namespace or None)


def _explanation(
    subject: _Subject,
    request: SearchRequest,
    *,
    plan: SearchPlan,
    ranking: _Ranking,
    excluded: Sequence[Exclusion],
    reveal: bool,
    recorded: RecordedSearch | None,
    asker: str,
) -> Explanation:
    ranked, order = ranking.ranked, ranking.order
    hit = next((hit for hit in ranking.hits if hit.scored.evidence.version_id == subject.stored.version_id), None)
    scored = order[ranking.rank - 1] if ranking.rank is not None else None
    asked = Asked(
        constraints=plan.constraints,
        terms=plan.terms,
        wanted=ranked.wanted,
        signal=fold(ranked.inferred.get("signal_type", "")),
        severity=plan.parsed.severity if ranked.severity_inferred else "",
        by_meaning=ranked.mode is SearchMode.HYBRID,
        reveal_custom=reveal,
    )
    found = ranking.evidence if not excluded else None
    parts = (
        evidence_of(subject.parsed.labels, found, asked=asked, caution=hit.caution if hit is not None else "")
        if found is not None
        else []
    )
    if excluded or found is None:
        score = None
    elif scored is not None:
        score = scored.score
    else:
        score = round(sum(part.log_odds for part in parts if part.in_score), SCORE_DIGITS)
    behind = order[0].score - score if order and score is not None else 0.0
    changes = (
        changes_to_be_first(parts, found, asked=asked, behind=behind) if found is not None and ranking.rank != 1 else []
    )
    why_not = "" if excluded else _why_not_returned(request, scored=scored, rank=ranking.rank, ranked=ranked)
    return Explanation(
        workflow_id=subject.name,
        version=subject.stored.version,
        version_id=subject.stored.version_id,
        query=request.query,
        search_id=str(recorded.search_id) if recorded is not None else "",
        allowed=not excluded,
        excluded_by=_rule(excluded[0]) if excluded else None,
        also_excluded_by=[_rule(each) for each in excluded[1:]],
        returned=not excluded and not why_not,
        not_returned_because=why_not,
        rank=ranking.rank if not excluded else None,
        total_results=ranked.candidates.total,
        score=score,
        confidence=scored.confidence if scored is not None and not excluded else None,
        first=FirstWorkflow(workflow_id=f"{order[0].evidence.namespace}/{order[0].evidence.name}", score=order[0].score)
        if order
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
        recorded=_place_then(recorded, version_id=subject.stored.version_id) if recorded is not None else None,
        search_mode=ranked.mode,
        notes=[*plan.notes, *_replay_notes(recorded, asker=asker)],
    )


def _why_not_returned(request: SearchRequest, *, scored: Scored | None, rank: int | None, ranked: Ranked) -> str:
    """Why an allowed workflow is not on the page; empty if it is."""
    if scored is None or rank is None:
        return f"it is allowed, and further from the query than the {len(ranked.order)} that were ranked"
    if request.top_k is None and scored.fits_nothing:
        return "nothing in the query fits it: it holds no telling word, and its meaning is far away"
    limit = DEFAULT_TOP_K if request.top_k is None else request.top_k
    if rank > limit:
        return f"it is number {rank}, and the answer holds {limit}"
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
