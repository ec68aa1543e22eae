"""The read side of the catalog, for every edge: search, details, selection.

MCP, REST and the command line call it. Each method records one event, resolves the incident and the caller's rights,
and returns an answer of `domain/answers/catalog`. `kernel/search/pipeline` does the searching.
"""

import time
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.catalog import (
    SearchAnswer,
    SelectionReceipt,
    WorkflowDetails,
)
from formulary_catalog.domain.audit.chain import TRIAL
from formulary_catalog.domain.search.request import ContextReference, SearchRequest
from formulary_catalog.domain.workflows.labels import wire_name
from formulary_catalog.errors import FormularyError
from formulary_catalog.kernel.lookup import WorkflowFinder, details_of, own_search, with_target_of_search
from formulary_catalog.kernel.search.pipeline import Searcher
from formulary_catalog.kernel.trail import OK, Trail, trace_of
from formulary_catalog.metrics import Metrics
from formulary_catalog.store.audit.events import TraceStore

_NO_EVIDENCE = (
    "this choice is no evidence: the search that search_id names did not return this version; choose one of its hits, "
    "or give the search_id of the answer that returned it"
)
_NO_SEARCH = (
    "this choice is no evidence: no search of yours for this incident returned this version; search first, then choose "
    "one of the hits and give its search_id"
)


class CatalogService:
    """Answers callers; every failure is a `FormularyError`, every call leaves an event in the trail."""

    def __init__(
        self, *, trail: Trail, traces: TraceStore, finder: WorkflowFinder, searcher: Searcher, metrics: Metrics
    ) -> None:
        self._trail, self._traces, self._finder = trail, traces, finder
        self._searcher = searcher
        self._metrics = metrics

    async def search(self, request: SearchRequest, *, caller: Caller, browsing: bool = False) -> SearchAnswer:
        """The allowed workflows that fit best (DESIGN section 5).

        `browsing` (as in `Visibility.of`) is a person who tries a search. A try is recorded in a trace of its own, and
        counts for nothing: neither as a question that was asked nor as one in which a workflow was found.

        Raises:
            ContextError: the incident is required and missing, unknown or contradictory.
            NotAllowed: the caller may not use the incident, or may see no namespace of the call.
            InvalidInput: custom labels of the request contradict the context.
            Unavailable: the database does not answer, the caller's rights cannot be checked, or the trail could
                not be written.
        """
        search_id = uuid4()
        started = time.perf_counter()
        mode, outcome = "none", "failed"
        try:
            async with self._trail.record(
                TRIAL if browsing else "search",
                caller=caller,
                reference=request.context,
                arguments=_arguments(request),
                search_id=search_id,
            ) as record:
                record.custom_labels = request.custom_labels
                digest = await self._traces.digest()
                answer = await self._searcher.search(
                    request, caller=caller, search_id=search_id, record=record, digest=digest, browsing=browsing
                )
            mode, outcome = answer.search_mode, OK
            return answer
        except FormularyError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._metrics.count_search(mode, outcome)
            self._metrics.observe_phase("total", time.perf_counter() - started)

    async def details(
        self,
        workflow_id: str,
        *,
        context: ContextReference,
        caller: Caller,
        version: str = "",
        search_id: str = "",
        browsing: bool = False,
    ) -> WorkflowDetails:
        """Everything about one workflow, named in any form of DESIGN section 3, if the incident allows it.

        `search_id` is that of a search of the caller, whose target counts where the call names none. `browsing` as in
        `Visibility.of`. An incident that is named constrains what is found in any case.

        Raises:
            NotFound: no visible, allowed workflow has that name.
            InvalidInput: the name is malformed, or needs a namespace.
            ContextError, NotAllowed, Unavailable: as `search`.
        """
        arguments = {"workflow_id": workflow_id, "version": version}
        context = await with_target_of_search(context, search_id=search_id, traces=self._traces, caller=caller)
        async with self._trail.record("details", caller=caller, reference=context, arguments=arguments) as record:
            found = await self._finder.find(
                workflow_id, version=version, reference=context, caller=caller, record=record, browsing=browsing
            )
            record.result = {"version_id": found.stored.version_id}
            return details_of(found)

    async def record_selection(
        self,
        *,
        workflow_id: str,
        reasoning: str,
        context: ContextReference,
        caller: Caller,
        version: str = "",
        search_id: str = "",
        confidence: float | None = None,
    ) -> SelectionReceipt:
        """Write the caller's choice and its reasons into the trail.

        A choice that the search it names did not return is recorded as unsupported, which is no evidence. One that
        names none is supported by any search of the caller in the same trace that returned the version.

        Raises:
            InvalidInput: a search id that is not one of this caller's for this incident.
            NotFound, ContextError, NotAllowed, Unavailable: as `details`.
        """
        arguments = {
            "workflow_id": workflow_id,
            "version": version,
            "reasoning": reasoning,
            "search_id": search_id,
            "confidence": confidence,
        }
        context = await with_target_of_search(context, search_id=search_id, traces=self._traces, caller=caller)
        async with self._trail.record("selection", caller=caller, reference=context, arguments=arguments) as record:
            found = await self._finder.find(
                workflow_id, version=version, reference=context, caller=caller, record=record
            )
            record.search_id = await own_search(self._traces, search_id, caller=caller.name, record=record)
            stored = found.stored
            supported = await self._traces.search_supports(
                trace_of(record), caller=caller.name, search_id=record.search_id, version_id=stored.version_id
            )
            notes = [] if supported else [_NO_EVIDENCE if search_id else _NO_SEARCH]
            record.result = {"version_id": stored.version_id, "namespace": stored.namespace, "supported": supported}
            return SelectionReceipt(
                recorded=True,
                workflow_id=found.stored.workflow_id,
                version=stored.version,
                version_id=stored.version_id,
                search_id=search_id,
                supported=supported,
                notes=notes,
            )


def _arguments(request: SearchRequest) -> dict[str, Any]:
    """What the caller asked, for the trail; values of custom labels stay out."""
    return {
        "query": request.query,
        "labels": {wire_name(dimension): list(values) for dimension, values in request.labels.items()},
        "exclude_keywords": list(request.exclude_keywords),
        **{name: value for name, value in asdict(request.narrowing).items() if value},
        **({"detected_labels": dict(request.detected_labels)} if request.detected_labels else {}),
        "min_confidence": request.min_confidence,
        "top_k": request.top_k,
        "own_embedding": request.embedding is not None,
    }
