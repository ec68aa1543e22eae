"""The catalog as the read commands see it: behind a running server, or straight from a database."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.domain.search.request import ContextReference, SearchRequest
from formulary_catalog.domain.workflows.labels import wire_name
from formulary_catalog.edges.cli.http_client import Remote, connected, incident_headers
from formulary_catalog.operations.arguments.target import with_target
from formulary_catalog.operations.operation import A, Call, Operation, R

if TYPE_CHECKING:
    from formulary_catalog.operations.services import Services

_SECONDS = 20.0  # longer than the server's own deadline
_PAGE = 100
_CALLER = Caller(name="local", access=EVERYTHING)


class Catalog(Protocol):
    """The questions of the read commands. Errors are `FormularyError`s."""

    async def ask(self, operation: Operation[A, R], given: Mapping[str, Any], *, remediation_id: str = "") -> R:
        """The answer to an operation with these arguments; those that say nothing are left out."""

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The allowed workflows that fit best."""


class StoredCatalog:
    """A catalog in a database that this process reads itself."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    async def ask(self, operation: Operation[A, R], given: Mapping[str, Any], *, remediation_id: str = "") -> R:
        arguments = operation.arguments.read(without_nothing(given))
        call = Call(
            services=self._services,
            arguments=arguments,
            context=with_target(ContextReference(remediation_id=remediation_id), arguments),
            caller=_CALLER,
            browsing=True,
        )
        return await operation.run(call)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        return await self._services.catalog.search(request, caller=_CALLER)


class ServedCatalog:
    """A catalog behind the REST side of a running server."""

    def __init__(self, server: Remote) -> None:
        self._server = server

    async def ask(self, operation: Operation[A, R], given: Mapping[str, Any], *, remediation_id: str = "") -> R:
        route = operation.route
        assert route is not None, "commands ask what has a route"
        operation.arguments.read(said := without_nothing(given))
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


def without_nothing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that say something."""
    return {name: value for name, value in given.items() if value not in (None, "", [], ())}


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
        if not cursor or (limit is not None and len(found) >= limit):
            return page.model_copy(update={entries: found, "notes": [*notes], "next_cursor": ""})


@asynccontextmanager
async def served_catalog(url: str, *, token: str = "") -> AsyncIterator[Catalog]:
    """The catalog of the server at this address, asked with a bearer token if there is one.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    async with connected(url, token=token, seconds=_SECONDS) as server:
        yield ServedCatalog(server)
