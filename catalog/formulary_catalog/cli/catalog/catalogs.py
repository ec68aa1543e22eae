"""The catalog as the read commands see it: behind a running server, or straight from a database."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from formulary_catalog.cli.http_client import Remote, connected, incident_headers
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import (
    Answer,
    SearchAnswer,
    SelectionReceipt,
    WorkflowDetails,
)
from formulary_catalog.domain.reading import IncidentAnswer, TargetAnswer
from formulary_catalog.domain.search.explanation.answers import Explanation, RecordedAnswer
from formulary_catalog.domain.search.request import ContextReference, SearchRequest
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.domain.workflows.labels import wire_name
from formulary_catalog.operations.arguments.catalog import SelectionArguments
from formulary_catalog.operations.operation import A, Call, Operation, R

if TYPE_CHECKING:
    from formulary_catalog.operations.services import Services

_A = TypeVar("_A", bound=Answer)
_SECONDS = 20.0  # longer than the server's own deadline
_PAGE = 100
_CALLER = Caller(name="local", access=EVERYTHING)


class Catalog(Protocol):
    """The questions of the read commands. Errors are `FormularyError`s."""

    async def ask(self, operation: Operation[A, R], given: Mapping[str, Any], *, remediation_id: str = "") -> R:
        """The answer to an operation with these arguments; those that say nothing are left out."""

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The allowed workflows that fit best."""

    async def details(self, workflow_id: str, *, version: str, remediation_id: str, about: str = "") -> WorkflowDetails:
        """One workflow in full."""

    async def select(self, chosen: SelectionArguments, *, remediation_id: str) -> SelectionReceipt:
        """Record a choice and its reasons."""

    async def explain(self, workflow_id: str, request: SearchRequest) -> Explanation:
        """Why a workflow is in the answer to a search, or why not."""

    async def explain_recorded(self, workflow_id: str, search_id: str) -> Explanation:
        """The same for a search that the trail recorded."""

    async def recorded(self, search_id: str) -> RecordedAnswer:
        """A search as the trail recorded it."""

    async def target(self, target: str) -> TargetAnswer:
        """What the owners of a target demand."""

    async def incident(self, incident: str) -> IncidentAnswer:
        """One incident, and what would be offered for it."""


class StoredCatalog:
    """A catalog in a database that this process reads itself."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    async def ask(self, operation: Operation[A, R], given: Mapping[str, Any], *, remediation_id: str = "") -> R:
        call = Call(
            services=self._services,
            arguments=operation.arguments.read(_without_nothing(given)),
            context=ContextReference(remediation_id=remediation_id),
            caller=_CALLER,
            browsing=True,
        )
        return await operation.run(call)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        return await self._services.catalog.search(request, caller=_CALLER)

    async def details(self, workflow_id: str, *, version: str, remediation_id: str, about: str = "") -> WorkflowDetails:
        target = parse_target(about) if about else None
        context = ContextReference(remediation_id=remediation_id, target=target)
        return await self._services.catalog.details(
            workflow_id, version=version, context=context, caller=_CALLER, browsing=True
        )

    async def select(self, chosen: SelectionArguments, *, remediation_id: str) -> SelectionReceipt:
        context = ContextReference(remediation_id=remediation_id)
        return await self._services.catalog.record_selection(context=context, caller=_CALLER, **dict(chosen))

    async def explain(self, workflow_id: str, request: SearchRequest) -> Explanation:
        return await self._services.explaining.of_search(workflow_id, request, caller=_CALLER)

    async def explain_recorded(self, workflow_id: str, search_id: str) -> Explanation:
        return await self._services.explaining.of_recorded(workflow_id, search_id, caller=_CALLER)

    async def recorded(self, search_id: str) -> RecordedAnswer:
        return await self._services.explaining.recorded(search_id, caller=_CALLER)

    async def target(self, target: str) -> TargetAnswer:
        return await self._services.targets.read(parse_target(target), caller=_CALLER)

    async def incident(self, incident: str) -> IncidentAnswer:
        return await self._services.incidents.incident(incident, caller=_CALLER)


class ServedCatalog:
    """A catalog behind the REST side of a running server."""

    def __init__(self, server: Remote) -> None:
        self._server = server

    async def ask(self, operation: Operation[A, R], given: Mapping[str, Any], *, remediation_id: str = "") -> R:
        route = operation.route
        assert route is not None, "commands ask what has a route"
        operation.arguments.read(said := _without_nothing(given))
        path, others = route.address(said)
        return await self._server.answer(
            operation.answer,
            route.method,
            path,
            headers=incident_headers(remediation_id),
            json=others if route.has_body else None,
            params=None if route.has_body else others,
        )

    async def search(self, request: SearchRequest) -> SearchAnswer:
        headers = incident_headers(request.context.remediation_id)
        body = _search_arguments(request)
        return await self._server.answer(SearchAnswer, "POST", "/workflows/search", json=body, headers=headers)

    async def details(self, workflow_id: str, *, version: str, remediation_id: str, about: str = "") -> WorkflowDetails:
        path = f"/workflows/{_quoted(workflow_id)}"
        given = {"version": version, "target": about}
        parameters = {name: value for name, value in given.items() if value}
        headers = incident_headers(remediation_id)
        return await self._server.answer(WorkflowDetails, "GET", path, params=parameters, headers=headers)

    async def select(self, chosen: SelectionArguments, *, remediation_id: str) -> SelectionReceipt:
        body, headers = chosen.model_dump(mode="json", exclude_unset=True), incident_headers(remediation_id)
        return await self._server.answer(SelectionReceipt, "POST", "/selections", json=body, headers=headers)

    async def explain(self, workflow_id: str, request: SearchRequest) -> Explanation:
        remediation_id, asked = request.context.remediation_id, _search_arguments(request)
        return await self._read(Explanation, "/explain", remediation_id=remediation_id, workflow=workflow_id, **asked)

    async def explain_recorded(self, workflow_id: str, search_id: str) -> Explanation:
        return await self._read(Explanation, "/explain", remediation_id="", workflow=workflow_id, search_id=search_id)

    async def recorded(self, search_id: str) -> RecordedAnswer:
        return await self._read(RecordedAnswer, f"/searches/{quote(search_id, safe='')}", remediation_id="")

    async def target(self, target: str) -> TargetAnswer:
        return await self._read(TargetAnswer, "/context", remediation_id="", target=target)

    async def incident(self, incident: str) -> IncidentAnswer:
        return await self._read(IncidentAnswer, f"/incidents/{quote(incident, safe='/')}", remediation_id="")

    async def _read(self, kind: type[_A], path: str, *, remediation_id: str, **parameters: Any) -> _A:
        headers = incident_headers(remediation_id)
        return await self._server.answer(kind, "GET", path, params=parameters, headers=headers)


def _without_nothing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that say something."""
    return {name: value for name, value in given.items() if value not in (None, "", [], ())}


def _asked(remediation_id: str) -> dict[str, Any]:
    """How a person asks."""
    return {"context": ContextReference(remediation_id=remediation_id), "caller": _CALLER, "browsing": True}


def _search_arguments(request: SearchRequest) -> dict[str, Any]:
    """The arguments of a search, as the REST side takes them."""
    narrowing = request.narrowing
    asked = {
        "query": request.query,
        "min_confidence": request.min_confidence,
        "top_k": request.top_k,
        "exclude_keywords": list(request.exclude_keywords),
        "action_type": narrowing.action_type,
        "namespace": narrowing.namespace,
        "keywords": list(narrowing.keywords),
        "target": str(request.context.target or ""),
        **{f"label.{wire_name(dimension)}": list(values) for dimension, values in request.labels.items()},
    }
    return {name: value for name, value in asked.items() if value not in (None, "", [])}


def _quoted(workflow_id: str) -> str:
    return quote(workflow_id, safe="/@")


async def whole_list(
    catalog: Catalog,
    operation: Operation[A, R],
    given: Mapping[str, Any],
    *,
    entries: str,
    limit: int | None = None,
    remediation_id: str = "",
) -> R:
    """The pages of a list as one, of at most `limit` entries; `entries` is the member of the answer that has them."""
    found: list[Any] = []
    notes: dict[str, None] = {}
    cursor = ""
    while True:
        most = _PAGE if limit is None else min(_PAGE, limit - len(found))
        asked = {**given, "limit": most, "cursor": cursor}
        page = await catalog.ask(operation, asked, remediation_id=remediation_id)
        members = dict(page)
        found += members[entries]
        notes |= dict.fromkeys(members["notes"])
        cursor = members["next_cursor"]
        if not cursor or len(found) == limit:
            return page.model_copy(update={entries: found, "notes": [*notes], "next_cursor": ""})


@asynccontextmanager
async def served_catalog(url: str, *, token: str = "") -> AsyncIterator[Catalog]:
    """The catalog of the server at this address, asked with a bearer token if there is one.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    async with connected(url, token=token, seconds=_SECONDS) as server:
        yield ServedCatalog(server)
