"""The catalog as the read commands see it: behind a running server, or straight from a database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from formulary_catalog.cli.http_client import Remote, connected, incident_headers
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers import SearchAnswer, WorkflowDetails, WorkflowList
from formulary_catalog.domain.search.request import ContextReference, SearchRequest, wire_name

if TYPE_CHECKING:
    from formulary_catalog.search.service import CatalogService

_SECONDS = 20.0  # longer than the server's own deadline
_PAGE = 500
_CALLER = Caller(name="local", access=EVERYTHING)


class Catalog(Protocol):
    """The three questions of the read commands. Errors are `FormularyError`s."""

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The allowed workflows that fit best."""

    async def details(self, workflow_id: str, *, version: str, remediation_id: str) -> WorkflowDetails:
        """One workflow in full."""

    async def list_workflows(self, *, remediation_id: str) -> WorkflowList:
        """All workflows that are visible."""


class StoredCatalog:
    """A catalog in a database that this process reads itself."""

    def __init__(self, service: "CatalogService") -> None:
        self._service = service

    async def search(self, request: SearchRequest) -> SearchAnswer:
        return await self._service.search(request, caller=_CALLER)

    async def details(self, workflow_id: str, *, version: str, remediation_id: str) -> WorkflowDetails:
        context = ContextReference(remediation_id=remediation_id)
        return await self._service.details(workflow_id, version=version, context=context, caller=_CALLER, browsing=True)

    async def list_workflows(self, *, remediation_id: str) -> WorkflowList:
        context = ContextReference(remediation_id=remediation_id)
        return await self._service.list_workflows(context=context, caller=_CALLER, limit=1_000_000, browsing=True)


class ServedCatalog:
    """A catalog behind the REST side of a running server."""

    def __init__(self, server: Remote) -> None:
        self._server = server

    async def search(self, request: SearchRequest) -> SearchAnswer:
        body: dict[str, Any] = {
            "query": request.query,
            "min_confidence": request.min_confidence,
            "exclude_keywords": list(request.exclude_keywords),
        }
        if request.top_k is not None:
            body["top_k"] = request.top_k
        body |= {f"label.{wire_name(dimension)}": list(values) for dimension, values in request.labels.items()}
        headers = incident_headers(request.context.remediation_id)
        return await self._server.answer(SearchAnswer, "POST", "/workflows/search", json=body, headers=headers)

    async def details(self, workflow_id: str, *, version: str, remediation_id: str) -> WorkflowDetails:
        path = f"/workflows/{quote(workflow_id, safe='/@')}"
        parameters = {"version": version} if version else {}
        headers = incident_headers(remediation_id)
        return await self._server.answer(WorkflowDetails, "GET", path, params=parameters, headers=headers)

    async def list_workflows(self, *, remediation_id: str) -> WorkflowList:
        headers = incident_headers(remediation_id)
        pages: list[WorkflowList] = []
        listed = 0
        while not pages or (pages[-1].workflows and listed < pages[-1].total_results):
            parameters = {"limit": _PAGE, "offset": listed}
            page = await self._server.answer(WorkflowList, "GET", "/workflows", params=parameters, headers=headers)
            pages.append(page)
            listed += len(page.workflows)
        workflows = [workflow for page in pages for workflow in page.workflows]
        notes = list(dict.fromkeys(note for page in pages for note in page.notes))
        return WorkflowList(workflows=workflows, total_results=pages[-1].total_results, notes=notes)


@asynccontextmanager
async def served_catalog(url: str, *, token: str = "") -> AsyncIterator[Catalog]:
    """The catalog of the server at this address, asked with a bearer token if there is one.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    async with connected(url, token=token, seconds=_SECONDS) as server:
        yield ServedCatalog(server)
