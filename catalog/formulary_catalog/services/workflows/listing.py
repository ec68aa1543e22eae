"""Pages of the catalog in name order, for every edge: what exists here, by kind of resource, risk or status."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.browsing import FacetedList, FacetsAnswer, FacetValue
from formulary_catalog.domain.answers.catalog import WorkflowList, WorkflowSummary
from formulary_catalog.domain.answers.shortening import within
from formulary_catalog.domain.cursor import Place, cursor, place_of
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.search.results import not_invocable_notes, workflow_summary
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import UNCONSTRAINED, Constraints, fold
from formulary_catalog.domain.workflows.requests import EVERYTHING_SERVED, STATUSES, ListingRequest
from formulary_catalog.errors import InvalidInput
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import CallScope
from formulary_catalog.store.workflows.facets import FacetReader
from formulary_catalog.store.workflows.listing import ListingQuestion, ListingReader
from formulary_catalog.store.workflows.names import Declared
from formulary_catalog.store.workflows.refusals import INVALID, RefusalReader

_ACTIVE = STATUSES[0]
_NO_INCIDENT = ContextReference()
_SHOWN_VALUES = 12


class Listing:
    """Lists workflows; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts) -> None:
        self._reader, self._facets = ListingReader(parts.database), FacetReader(parts.database)
        self._refusals = RefusalReader(parts.database)
        self._trail, self._visibility, self._finder = parts.trail, parts.visibility, parts.finder

    async def page(
        self,
        request: ListingRequest = EVERYTHING_SERVED,
        *,
        context: ContextReference,
        caller: Caller,
        browsing: bool = False,
        max_bytes: int | None = None,
    ) -> WorkflowList:
        """A page of the workflows that the caller may see and the incident allows.

        `browsing` as in `Visibility.of`; without an incident, a person also sees what is not served. `max_bytes` is how
        long the answer may be as compact JSON.

        Raises:
            InvalidInput: the cursor is that of another question, or the status is for people.
            ContextError, NotAllowed, Unavailable: as `Visibility.of`.
        """
        async with self._recorded(request, context=context, caller=caller) as record:
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            _check_status(request.status, scope=scope, browsing=browsing)
            question = {**request.question, "incident": context.names}
            answer, places = await self._page(request, scope=scope, question=question, caller=caller)
            record.result = {"total": answer.total}
            if max_bytes is None:
                return answer
            return within(
                answer,
                limit=max_bytes,
                cursor_after=lambda kept: cursor(places[kept - 1], question=question),
            )

    async def faceted(self, request: ListingRequest, *, caller: Caller) -> FacetedList:
        """A page for a person who browses without an incident, with what narrows it further.

        Raises:
            InvalidInput: the cursor is that of another question.
            NotAllowed, Unavailable: as `Visibility.of`.
        """
        async with self._recorded(request, context=_NO_INCIDENT, caller=caller) as record:
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            question = {**request.question, "incident": _NO_INCIDENT.names}
            page, _ = await self._page(request, scope=scope, question=question, caller=caller)
            record.result = {"total": page.total}
            return FacetedList(page=page, facets=await self._values(request, scope=scope, caller=caller))

    async def facets(self, request: ListingRequest, *, caller: Caller) -> FacetsAnswer:
        """What narrows the listing of a person who browses without an incident; `limit` and place do not matter.

        Raises:
            NotAllowed, Unavailable: as `Visibility.of`.
        """
        arguments = {name: value for name, value in request.question.items() if value}
        async with self._trail.record(
            "read.facets", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
            return FacetsAnswer(facets=await self._values(request, scope=scope, caller=caller))

    def _recorded(
        self, request: ListingRequest, *, context: ContextReference, caller: Caller
    ) -> AbstractAsyncContextManager[Record]:
        arguments = {**request.question, "limit": request.limit, "offset": request.offset, "cursor": request.cursor}
        arguments = {name: value for name, value in arguments.items() if value}
        return self._trail.record("list", caller=caller, reference=context, arguments=arguments)

    async def _values(
        self, request: ListingRequest, *, scope: CallScope, caller: Caller
    ) -> dict[str, list[FacetValue]]:
        question = question_of(
            request,
            constraints=self._finder.constraints(scope),
            suspended_in=await self._visibility.suspended_in(scope, caller=caller),
        )
        values = await self._facets.values(question, namespaces=scope.namespaces, limit=_SHOWN_VALUES)
        if request.status == INVALID:
            values["namespace"] = await self._refusals.namespaces(
                question, namespaces=scope.namespaces, limit=_SHOWN_VALUES
            )
        statuses = await self._facets.statuses(question, namespaces=scope.namespaces)
        counted = values | {"status": list(statuses.items())}
        return {
            facet: [FacetValue(value=visible(value), count=count) for value, count in found]
            for facet, found in counted.items()
        }

    async def _page(
        self, request: ListingRequest, *, scope: CallScope, question: Mapping[str, Any], caller: Caller
    ) -> tuple[WorkflowList, list[Place]]:
        """A page with the places of its lines; `question` is what its cursor belongs to."""
        after = place_of(request.cursor, question=question)
        constraints = self._finder.constraints(scope)
        is_served = request.status == _ACTIVE
        suspended_in = frozenset() if is_served else await self._visibility.suspended_in(scope, caller=caller)
        rows, total = await self._reader.read(
            question_of(request, constraints=constraints, suspended_in=suspended_in),
            namespaces=scope.namespaces,
            limit=request.limit + 1,
            after=after,
            offset=request.offset,
        )
        page = rows[: request.limit]
        # What is not served is listed for people who browse without an incident: nothing constrains it.
        listed = [(stored, parsed) for stored in page if (parsed := self._finder.allowed(stored, constraints))]
        places = [Place(stored.name, stored.namespace, stored.version_id) for stored, _ in listed]
        workflows = [
            workflow_summary(parsed.workflow, stored=stored, invocable=not parsed.not_invocable_because)
            for stored, parsed in listed
        ]
        more = len(rows) > request.limit and bool(places)
        unrunnable = [line.workflow_id for line in workflows if not line.invocable and request.status == _ACTIVE]
        unknown = await self._unknown_values(request, workflows=workflows, scope=scope)
        answer = WorkflowList(
            workflows=workflows,
            total=total,
            total_results=total,
            notes=[
                *unknown,
                *([] if total or unknown else _on_emptiness(request, scope=scope)),
                *not_invocable_notes(unrunnable),
                *(await self._refused(request, scope=scope) if request.status == INVALID else []),
            ],
            **({"next_cursor": cursor(places[-1], question=question)} if more else {}),
        )
        return answer, places

    async def _refused(self, request: ListingRequest, *, scope: CallScope) -> list[str]:
        """Where refused objects are, and how many. Only their namespace and words are known."""
        known = ListingRequest(namespace=request.namespace, text=request.text, status=INVALID)
        question = question_of(known, constraints=UNCONSTRAINED)
        _, number = await self._refusals.page(question, namespaces=scope.namespaces, limit=0)
        return [
            "refused objects are no workflows: GET /api/v1/refused and `formulary list --refused` list them with the "
            f"reason, {number} here"
        ]

    async def _unknown_values(
        self, request: ListingRequest, *, workflows: Sequence[WorkflowSummary], scope: CallScope
    ) -> list[str]:
        """Notes on filters with a value that no workflow has. Those that answer any signal are listed for any."""
        asked = fold(request.signal_type)
        answered = any(asked in map(fold, line.signal_types) for line in workflows)
        if request.status != _ACTIVE:
            return []
        found = {what: bool(workflows) for what in Declared} | {Declared.SIGNAL_TYPE: answered}
        given = {what: getattr(request, what) for what in Declared if not found[what]}
        return await self._finder.unknown_values(given, scope=scope)


def question_of(
    request: ListingRequest, *, constraints: Constraints, suspended_in: frozenset[str] | None = frozenset()
) -> ListingQuestion:
    """What is looked for, folded where values are."""
    return ListingQuestion(
        constraints=constraints,
        status=request.status,
        signal_type=fold(request.signal_type),
        action_type=request.action_type,
        namespace=request.namespace,
        risk_level=request.risk_level,
        words=request.words,
        suspended_in=suspended_in,
    )


def _on_emptiness(request: ListingRequest, *, scope: CallScope) -> list[str]:
    """Why nothing that is served is listed, where no single filter is the reason."""
    if request.status != _ACTIVE:
        return []
    if any({**request.question, "status": ""}.values()):
        return ["nothing that is allowed here has all of these values; leave out a filter"]
    if scope.context is not None:
        return ["the incident's constraints allow no workflow that you may see; escalate to a human"]
    return ["the catalog holds no workflow that you may see; load some first"]


def _check_status(status: str, *, scope: CallScope, browsing: bool) -> None:
    if status == _ACTIVE or (browsing and scope.context is None):
        return
    option = "--refused" if status == INVALID else f"--status {status}"
    raise InvalidInput(
        f"status {status!r} is listed for people who browse without an incident, with `formulary list {option}`; leave "
        "status out for what may be used here",
        field="status",
    )
