"""The catalog as the read commands see it: behind a running server, or straight from a database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from formulary_catalog.cli.hosts import is_loopback
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers import Answer, SearchAnswer, WorkflowDetails, WorkflowList
from formulary_catalog.domain.request import ContextReference, SearchRequest, wire_name
from formulary_catalog.errors import (
    FormularyError,
    InvalidInput,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Unavailable,
)

if TYPE_CHECKING:
    from formulary_catalog.search.service import CatalogService

_SECONDS = 20.0  # longer than the server's own deadline
_PAGE = 500
_CALLER = Caller(name="local", access=EVERYTHING)
_A = TypeVar("_A", bound=Answer)


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
        return await self._service.details(workflow_id, version=version, context=context, caller=_CALLER)

    async def list_workflows(self, *, remediation_id: str) -> WorkflowList:
        context = ContextReference(remediation_id=remediation_id)
        return await self._service.list_workflows(context=context, caller=_CALLER, limit=1_000_000)


class ServedCatalog:
    """A catalog behind the REST side of a running server."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def search(self, request: SearchRequest) -> SearchAnswer:
        body: dict[str, Any] = {
            "query": request.query,
            "top_k": request.top_k,
            "min_confidence": request.min_confidence,
            "exclude_keywords": list(request.exclude_keywords),
        }
        body |= {f"label.{wire_name(dimension)}": list(values) for dimension, values in request.labels.items()}
        headers = _headers(request.context.remediation_id)
        return await self._answer(SearchAnswer, "POST", "/workflows/search", json=body, headers=headers)

    async def details(self, workflow_id: str, *, version: str, remediation_id: str) -> WorkflowDetails:
        path = f"/workflows/{quote(workflow_id, safe='/@')}"
        parameters = {"version": version} if version else {}
        headers = _headers(remediation_id)
        return await self._answer(WorkflowDetails, "GET", path, params=parameters, headers=headers)

    async def list_workflows(self, *, remediation_id: str) -> WorkflowList:
        headers = _headers(remediation_id)
        pages: list[WorkflowList] = []
        listed = 0
        while not pages or (pages[-1].workflows and listed < pages[-1].total_results):
            parameters = {"limit": _PAGE, "offset": listed}
            page = await self._answer(WorkflowList, "GET", "/workflows", params=parameters, headers=headers)
            pages.append(page)
            listed += len(page.workflows)
        workflows = [workflow for page in pages for workflow in page.workflows]
        return WorkflowList(workflows=workflows, total_results=pages[-1].total_results)

    async def _answer(self, kind: type[_A], method: str, path: str, **options: Any) -> _A:
        url = str(self._client.base_url).rstrip("/")
        try:
            response = await self._client.request(method, f"/api/v1{path}", **options)
        except httpx.ConnectError:
            raise Unavailable(
                f"no server at {url}; start one with `formulary up`, or name another with --url"
            ) from None
        except httpx.HTTPError as error:
            raise Unavailable(f"the server at {url} does not answer ({type(error).__name__}); retry") from None
        if response.status_code != 200:
            raise _error(response, url=url)
        try:
            return kind.model_validate_json(response.content)
        except ValidationError:
            raise Unavailable(
                f"the server at {url} does not answer like this version of Formulary; check --url and the versions"
            ) from None


@asynccontextmanager
async def served_catalog(url: str, *, token: str = "") -> AsyncIterator[Catalog]:
    """The catalog of the server at this address, asked with a bearer token if there is one.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    if not (token.isascii() and token.isprintable()):
        raise InvalidInput("FORMULARY_TOKEN holds characters that no token has; set the token alone", field="token")
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme not in ("http", "https") or not address.host:
        raise InvalidInput(f"--url {url!r} is not an HTTP address; give one such as http://127.0.0.1:8080", field="url")
    # A proxy of the environment cannot reach our own loopback.
    trust_env = not is_loopback(address.host)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=_SECONDS, trust_env=trust_env) as client:
        yield ServedCatalog(client)


def _headers(remediation_id: str) -> dict[str, str]:
    return {"X-Remediation-Id": remediation_id} if remediation_id else {}


def _error(response: httpx.Response, *, url: str) -> FormularyError:
    """The server's error as the one it was raised as."""
    try:
        problem = response.json()["error"]
        message, field = str(problem["message"]), str(problem.get("field") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Unavailable(f"the server at {url} answers {response.status_code}; check that it is a Formulary server")
    match response.status_code:
        case 404:
            return NotFound(message, reference="")
        case 401:
            return NotAuthenticated(message)
        case 403:
            return NotAllowed(message)
        case 400 | 413:
            return InvalidInput(message, field=field)
        case _:
            return Unavailable(message)
