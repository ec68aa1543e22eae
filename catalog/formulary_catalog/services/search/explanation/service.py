"""Why a workflow is in the answer to a search, and why not: for a new search, or one that the trail recorded.

REST, the console and the command line call it. It plans and ranks as `kernel/search/pipeline` does, and asks
`domain/workflows/exclusion` for the rules' words; `ranking` beside it makes the answer. A recorded search is repeated
under its sealed constraints. A workflow that the caller may not see is not found, whatever excludes it.
"""

from dataclasses import replace
from typing import Any

from formulary_catalog.domain.access import READ_CONSTRAINTS, Caller
from formulary_catalog.domain.audit.chain import EXPLANATION
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.explanation.answers import Explanation, RecordedAnswer
from formulary_catalog.domain.search.request import ContextReference, SearchRequest
from formulary_catalog.domain.workflows.exclusion import Exclusion, exclusions, narrowed_out, unserved
from formulary_catalog.domain.workflows.identity import WorkflowReference, parse_reference
from formulary_catalog.errors import InvalidInput, UnknownWorkflow
from formulary_catalog.kernel.lookup import FoundWorkflow
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.search.planning import plan_search
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import CallScope
from formulary_catalog.services.search.explanation.ranking import Ranking, explanation
from formulary_catalog.services.search.explanation.recorded import RecordedSearch, RecordedSearches, recorded_answer

_NO_INCIDENT = ContextReference()


class Explaining:
    """Explains; every call leaves an event in a trace of its own: no story grows by being looked into."""

    def __init__(self, parts: CatalogParts, *, strict_keys: frozenset[str]) -> None:
        self._parts = parts
        self._strict_keys = strict_keys
        self._recorded = RecordedSearches(parts.database, traces=parts.traces)

    async def of_search(self, workflow_id: str, request: SearchRequest, *, caller: Caller) -> Explanation:
        """Why a workflow is in the answer to this search, and why not. People need no incident.

        Raises:
            NotFound: no workflow of that name is visible to this search.
            InvalidInput: the name is malformed, or needs a namespace.
            ContextError, NotAllowed, Unavailable: as a search.
        """
        arguments = {"workflow_id": workflow_id, **_arguments(request)}
        reference = request.context
        async with self._parts.trail.record(
            EXPLANATION, caller=caller, reference=reference, arguments=arguments
        ) as record:
            wanted = parse_reference(workflow_id)
            scope = await self._parts.visibility.of(reference, caller=caller, record=record, browsing=True)
            return await self._explained(wanted, request, scope=scope, caller=caller, record=record)

    async def of_page(self, request: SearchRequest, *, caller: Caller) -> list[Explanation]:
        """What speaks for each workflow of the answer to this search, in its order. People need no incident.

        Raises:
            ContextError, NotAllowed, Unavailable: as a search.
        """
        reference = request.context
        async with self._parts.trail.record(
            EXPLANATION, caller=caller, reference=reference, arguments=_arguments(request)
        ) as record:
            scope = await self._parts.visibility.of(reference, caller=caller, record=record, browsing=True)
            rankings = await self._rankings(request, scope=scope, caller=caller)
            record.mode = rankings[0].ranked.mode
            page = [(hit, ranking) for ranking in rankings for hit in ranking.page()]
            record.result = {"total": len(page)}
            return [
                explanation(hit.stored, hit.parsed, evidence=hit.scored.evidence, ranking=ranking)
                for hit, ranking in page
            ]

    async def of_recorded(self, workflow_id: str, search_id: str, *, caller: Caller) -> Explanation:
        """Why a workflow was in the answer to a recorded search, and why not, as the catalog is now.

        Raises:
            NotFound: no search of that id is readable, or no workflow of that name is visible to it.
            InvalidInput: the name is malformed, or needs a namespace; the search cannot be done again.
            NotAllowed, Unavailable: as a search.
        """
        arguments = {"workflow_id": workflow_id, "search_id": search_id}
        async with self._parts.trail.record(
            EXPLANATION, caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            wanted = parse_reference(workflow_id)
            found = await self._recorded.find(search_id, caller=caller)
            scope = await self._parts.visibility.within(found.incident, caller=caller, browsing=True)
            return await self._explained(
                wanted, found.request, scope=scope, caller=caller, record=record, recorded=found
            )

    async def recorded(self, search_id: str, *, caller: Caller) -> RecordedAnswer:
        """A search as the trail holds it: what was asked, and what was found then.

        Raises:
            NotFound: no search of that id is readable.
            InvalidInput: what was sealed with it was changed.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._parts.trail.record(
            EXPLANATION, caller=caller, reference=_NO_INCIDENT, arguments={"search_id": search_id}
        ) as record:
            found = await self._recorded.find(search_id, caller=caller)
            record.result = {"total": len(found.candidates)}
            return recorded_answer(found, reveal=await _may_read(found.incident, caller=caller))

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
        found = await self._find(wanted, scope=scope, caller=caller)
        stored = found.stored
        rankings = await self._rankings(request, scope=scope, caller=caller)
        ranking = next((each for each in rankings if each.shows(stored.version_id)), rankings[0])
        excluded = _excluded(found, ranking=ranking)
        place = ranking.place_of(stored.version_id)
        evidence = ranking.order[place - 1].evidence if place is not None else None
        if not excluded and place is None:
            evidence = await self._parts.searcher.evidence_of(
                stored.version_id, request=request, plan=ranking.plan, namespaces=scope.namespaces
            )
        record.mode = ranking.ranked.mode
        record.result = {
            "version_id": stored.version_id,
            "rank": place,
            # Not the reason: it may name a custom label.
            "excluded_by": excluded[0].rule if excluded else "",
        }
        return explanation(
            stored,
            found.parsed,
            evidence=evidence,
            ranking=ranking,
            excluded=excluded,
            recorded=recorded,
            asker=caller.name,
        )

    async def _find(self, wanted: WorkflowReference, *, scope: CallScope, caller: Caller) -> FoundWorkflow:
        """The workflow that is meant among those that are visible, whatever excludes it.

        A suspended one is found where the caller may read constraints.
        """
        versions = await self._parts.workflows.find(
            wanted,
            namespaces=scope.namespaces,
            suspended_in=await self._parts.visibility.suspended_in(scope, caller=caller),
        )
        found = [
            FoundWorkflow(stored=stored, parsed=parsed, history=tuple(history), scope=scope)
            for stored, history in versions
            if (parsed := self._parts.parsed.get(stored.version_id, stored.document)) is not None
        ]
        if not found:
            nearest = await self._parts.finder.nearest(wanted.name, scope=replace(scope, context=None))
            raise UnknownWorkflow(str(wanted), nearest=nearest)
        if len(found) > 1:
            names = ", ".join(f"{each.stored.namespace}/{each.stored.name}" for each in found)
            raise InvalidInput(
                f"workflow {str(wanted)!r} exists in {len(found)} namespaces; name one: {names}", field="workflow"
            )
        return found[0]

    async def _rankings(self, request: SearchRequest, *, scope: CallScope, caller: Caller) -> list[Ranking]:
        """How the workflows rank for each problem that the query reports."""
        plan = plan_search(request, context=scope.context, strict_keys=self._strict_keys)
        reveal = await _may_read(scope.context, caller=caller)
        rankings = []
        for each in plan.by_problem():
            ranked, hits = await self._parts.searcher.ranking(request, plan=each, namespaces=scope.namespaces)
            rankings.append(Ranking.of(ranked, hits, request=request, plan=each, reveal=reveal))
        return rankings


def _arguments(request: SearchRequest) -> dict[str, Any]:
    said = {
        "query": request.query,
        "labels": {name: list(values) for name, values in request.labels.items()},
        "exclude_keywords": list(request.exclude_keywords),
        "detected_labels": dict(request.detected_labels),
    }
    return {name: value for name, value in said.items() if value}


def _excluded(found: FoundWorkflow, *, ranking: Ranking) -> list[Exclusion]:
    """The rules that exclude it, in the order in which they are checked."""
    stored, parsed, plan = found.stored, found.parsed, ranking.plan
    rules = []
    if stored.status != "Active":
        served = next((each.version for each in found.history if each.status == "Active"), "")
        rules.append(unserved(stored.status, version=stored.version, served=served))
    named = ranking.request.context
    says = "the labels of the target say" if named.target and not named.names_incident else "the incident says"
    rules += exclusions(parsed.labels, plan.constraints, imposed=plan.imposed, reveal_custom=ranking.reveal, says=says)
    rules += narrowed_out(
        parsed.labels, plan.narrowing, namespace=stored.namespace, action_type=parsed.workflow.spec.action_type
    )
    return rules


async def _may_read(context: RequestContext | None, *, caller: Caller) -> bool:
    """Whether the caller may know which custom labels the incident has."""
    if context is None:
        return True
    return await caller.access.allows(READ_CONSTRAINTS, namespace=context.namespace or None)
