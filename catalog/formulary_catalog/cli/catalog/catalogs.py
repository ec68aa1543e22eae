"""The catalog as the read commands see it: behind a running server, or straight from a database."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from formulary_catalog.cli.http_client import Remote, connected, incident_headers
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers import Answer, SearchAnswer, WorkflowDetails, WorkflowList
from formulary_catalog.domain.browsing import (
    ImpactAnswer,
    NamesAnswer,
    RelatedAnswer,
    SectionAnswer,
    StatisticsAnswer,
    VersionDifference,
)
from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.coverage.answers import CoverageAnswer, DuplicatesAnswer, StaleAnswer
from formulary_catalog.domain.search.explained import Explanation, RecordedAnswer
from formulary_catalog.domain.search.request import ContextReference, SearchRequest, wire_name
from formulary_catalog.domain.workflows.requests import ListingRequest, RelatedRequest
from formulary_catalog.knowledge.answers import (
    CollectionsAnswer,
    DocumentAnswer,
    DocumentSearchAnswer,
    SimilarDocumentsAnswer,
)

if TYPE_CHECKING:
    from formulary_catalog.search.service import CatalogService

_A = TypeVar("_A", bound=Answer)
_SECONDS = 20.0  # longer than the server's own deadline
_CALLER = Caller(name="local", access=EVERYTHING)


class Catalog(Protocol):
    """The questions of the read commands. Errors are `FormularyError`s."""

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The allowed workflows that fit best."""

    async def details(self, workflow_id: str, *, version: str, remediation_id: str) -> WorkflowDetails:
        """One workflow in full."""

    async def page(self, request: ListingRequest, *, remediation_id: str) -> WorkflowList:
        """A page of the workflows that are visible."""

    async def related(self, request: RelatedRequest, *, remediation_id: str) -> RelatedAnswer:
        """What is connected with a workflow, a signal type or an action type."""

    async def find(self, name: str, *, remediation_id: str) -> NamesAnswer:
        """The workflows that a name may mean."""

    async def impact(self, workflow_id: str, *, remediation_id: str) -> ImpactAnswer:
        """What would be missed without a workflow."""

    async def section(self, workflow_id: str, section: str, *, remediation_id: str) -> SectionAnswer:
        """One section of a workflow."""

    async def difference(self, workflow_id: str, against: str) -> VersionDifference:
        """What differs between two versions of a workflow."""

    async def statistics(self, *, remediation_id: str) -> StatisticsAnswer:
        """The catalog in numbers."""

    async def search_documents(
        self, query: str, *, collection: str, top_k: int, remediation_id: str
    ) -> DocumentSearchAnswer:
        """The documents that fit best."""

    async def similar_documents(
        self, doc_id: str, *, text: str, top_k: int, remediation_id: str
    ) -> SimilarDocumentsAnswer:
        """The documents that resemble one, or a draft."""

    async def document(self, doc_id: str, *, remediation_id: str) -> DocumentAnswer:
        """One document."""

    async def collections(self, *, remediation_id: str) -> CollectionsAnswer:
        """The collections of documents."""

    async def explain(self, workflow_id: str, request: SearchRequest) -> Explanation:
        """Why a workflow is in the answer to a search, or why not."""

    async def explain_recorded(self, workflow_id: str, search_id: str) -> Explanation:
        """The same for a search that the trail recorded."""

    async def recorded(self, search_id: str) -> RecordedAnswer:
        """A search as the trail recorded it."""

    async def coverage(self) -> CoverageAnswer:
        """Which signals have a remedy, and which queries found too little."""

    async def coverage_of(self, alerts: Sequence[Alert]) -> CoverageAnswer:
        """The remedies for these alerts, as many as one call takes."""

    async def stale(self, *, limit: int) -> StaleAnswer:
        """Workflows that may be of no use."""

    async def duplicates(self, *, limit: int) -> DuplicatesAnswer:
        """Pairs of workflows that say nearly the same."""


class StoredCatalog:
    """A catalog in a database that this process reads itself."""

    def __init__(self, service: "CatalogService", *, strict_keys: frozenset[str]) -> None:
        from formulary_catalog.knowledge.service import KnowledgeService
        from formulary_catalog.search.explaining import Explaining
        from formulary_catalog.workflows.browsing import Browsing
        from formulary_catalog.workflows.coverage import Coverage
        from formulary_catalog.workflows.listing import Listing
        from formulary_catalog.workflows.relations import Relations
        from formulary_catalog.workflows.upkeep import Upkeep
        from formulary_catalog.workflows.versions import Versions

        self._service = service
        self._listing, self._browsing = Listing(service.parts), Browsing(service.parts)
        self._explaining = Explaining(service.parts, searcher=service.searcher, strict_keys=strict_keys)
        self._coverage = Coverage(service.parts, searcher=service.searcher, strict_keys=strict_keys)
        self._upkeep = Upkeep(service.parts)
        self._relations = Relations(service.parts)
        self._versions = Versions(service.parts)
        self._knowledge = KnowledgeService(service.parts)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        return await self._service.search(request, caller=_CALLER)

    async def details(self, workflow_id: str, *, version: str, remediation_id: str) -> WorkflowDetails:
        context = ContextReference(remediation_id=remediation_id)
        return await self._service.details(workflow_id, version=version, context=context, caller=_CALLER, browsing=True)

    async def page(self, request: ListingRequest, *, remediation_id: str) -> WorkflowList:
        return await self._listing.page(request, **_asked(remediation_id))

    async def related(self, request: RelatedRequest, *, remediation_id: str) -> RelatedAnswer:
        return await self._relations.related(request, **_asked(remediation_id))

    async def find(self, name: str, *, remediation_id: str) -> NamesAnswer:
        return await self._browsing.find(name, **_asked(remediation_id))

    async def impact(self, workflow_id: str, *, remediation_id: str) -> ImpactAnswer:
        return await self._relations.impact(workflow_id, **_asked(remediation_id))

    async def section(self, workflow_id: str, section: str, *, remediation_id: str) -> SectionAnswer:
        return await self._browsing.section(workflow_id, section, **_asked(remediation_id))

    async def difference(self, workflow_id: str, against: str) -> VersionDifference:
        return await self._versions.difference(workflow_id, against, caller=_CALLER)

    async def statistics(self, *, remediation_id: str) -> StatisticsAnswer:
        return await self._browsing.statistics(**_asked(remediation_id))

    async def search_documents(
        self, query: str, *, collection: str, top_k: int, remediation_id: str
    ) -> DocumentSearchAnswer:
        return await self._knowledge.search(query, collection=collection, top_k=top_k, **_asked(remediation_id))

    async def similar_documents(
        self, doc_id: str, *, text: str, top_k: int, remediation_id: str
    ) -> SimilarDocumentsAnswer:
        return await self._knowledge.similar(doc_id, text=text, top_k=top_k, **_asked(remediation_id))

    async def document(self, doc_id: str, *, remediation_id: str) -> DocumentAnswer:
        return await self._knowledge.document(doc_id, **_asked(remediation_id))

    async def collections(self, *, remediation_id: str) -> CollectionsAnswer:
        return await self._knowledge.collections(**_asked(remediation_id))

    async def explain(self, workflow_id: str, request: SearchRequest) -> Explanation:
        return await self._explaining.of_search(workflow_id, request, caller=_CALLER)

    async def explain_recorded(self, workflow_id: str, search_id: str) -> Explanation:
        return await self._explaining.of_recorded(workflow_id, search_id, caller=_CALLER)

    async def recorded(self, search_id: str) -> RecordedAnswer:
        return await self._explaining.recorded(search_id, caller=_CALLER)

    async def coverage(self) -> CoverageAnswer:
        return await self._coverage.of_catalog(caller=_CALLER)

    async def coverage_of(self, alerts: Sequence[Alert]) -> CoverageAnswer:
        return await self._coverage.of_alerts(alerts, caller=_CALLER)

    async def stale(self, *, limit: int) -> StaleAnswer:
        return await self._upkeep.stale(limit=limit, caller=_CALLER)

    async def duplicates(self, *, limit: int) -> DuplicatesAnswer:
        return await self._upkeep.duplicates(limit=limit, caller=_CALLER)


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
        path = f"/workflows/{_quoted(workflow_id)}"
        parameters = {"version": version} if version else {}
        headers = incident_headers(remediation_id)
        return await self._server.answer(WorkflowDetails, "GET", path, params=parameters, headers=headers)

    async def page(self, request: ListingRequest, *, remediation_id: str) -> WorkflowList:
        filters = {name: value for name, value in request.question.items() if value}
        page = {"limit": request.limit} | ({"cursor": request.cursor} if request.cursor else {})
        return await self._read(WorkflowList, "/workflows", remediation_id=remediation_id, **filters, **page)

    async def related(self, request: RelatedRequest, *, remediation_id: str) -> RelatedAnswer:
        path = f"/workflows/{_quoted(request.entity)}/related"
        asked = {"depth": request.depth, "relations": ",".join(request.relations), "limit": request.limit}
        return await self._read(RelatedAnswer, path, remediation_id=remediation_id, **asked)

    async def find(self, name: str, *, remediation_id: str) -> NamesAnswer:
        return await self._read(NamesAnswer, "/names", remediation_id=remediation_id, name=name)

    async def impact(self, workflow_id: str, *, remediation_id: str) -> ImpactAnswer:
        return await self._read(
            ImpactAnswer, f"/workflows/{_quoted(workflow_id)}/impact", remediation_id=remediation_id
        )

    async def section(self, workflow_id: str, section: str, *, remediation_id: str) -> SectionAnswer:
        path = f"/workflows/{_quoted(workflow_id)}/sections/{section}"
        return await self._read(SectionAnswer, path, remediation_id=remediation_id)

    async def difference(self, workflow_id: str, against: str) -> VersionDifference:
        path = f"/workflows/{_quoted(workflow_id)}/difference"
        return await self._read(VersionDifference, path, remediation_id="", against=against)

    async def statistics(self, *, remediation_id: str) -> StatisticsAnswer:
        return await self._read(StatisticsAnswer, "/stats", remediation_id=remediation_id)

    async def search_documents(
        self, query: str, *, collection: str, top_k: int, remediation_id: str
    ) -> DocumentSearchAnswer:
        asked = {"query": query, "top_k": top_k, "collection": collection}
        return await self._read(DocumentSearchAnswer, "/documents", remediation_id=remediation_id, **asked)

    async def similar_documents(
        self, doc_id: str, *, text: str, top_k: int, remediation_id: str
    ) -> SimilarDocumentsAnswer:
        asked = {"doc_id": doc_id, "text": text, "top_k": top_k}
        return await self._read(SimilarDocumentsAnswer, "/documents/similar", remediation_id=remediation_id, **asked)

    async def document(self, doc_id: str, *, remediation_id: str) -> DocumentAnswer:
        path = f"/documents/{quote(doc_id, safe='')}"
        return await self._read(DocumentAnswer, path, remediation_id=remediation_id)

    async def collections(self, *, remediation_id: str) -> CollectionsAnswer:
        return await self._read(CollectionsAnswer, "/collections", remediation_id=remediation_id)

    async def explain(self, workflow_id: str, request: SearchRequest) -> Explanation:
        asked: dict[str, Any] = {"query": request.query, "min_confidence": request.min_confidence}
        asked |= {f"label.{wire_name(dimension)}": list(values) for dimension, values in request.labels.items()}
        asked |= {"exclude_keywords": list(request.exclude_keywords)} if request.exclude_keywords else {}
        asked |= {"top_k": request.top_k} if request.top_k is not None else {}
        remediation_id = request.context.remediation_id
        return await self._read(Explanation, "/explain", remediation_id=remediation_id, workflow=workflow_id, **asked)

    async def explain_recorded(self, workflow_id: str, search_id: str) -> Explanation:
        return await self._read(Explanation, "/explain", remediation_id="", workflow=workflow_id, search_id=search_id)

    async def recorded(self, search_id: str) -> RecordedAnswer:
        return await self._read(RecordedAnswer, f"/searches/{quote(search_id, safe='')}", remediation_id="")

    async def coverage(self) -> CoverageAnswer:
        return await self._read(CoverageAnswer, "/coverage", remediation_id="")

    async def coverage_of(self, alerts: Sequence[Alert]) -> CoverageAnswer:
        body = {"alerts": [alert.as_json() for alert in alerts]}
        return await self._server.answer(CoverageAnswer, "POST", "/coverage", json=body)

    async def stale(self, *, limit: int) -> StaleAnswer:
        return await self._read(StaleAnswer, "/coverage/stale", remediation_id="", limit=limit)

    async def duplicates(self, *, limit: int) -> DuplicatesAnswer:
        return await self._read(DuplicatesAnswer, "/coverage/duplicates", remediation_id="", limit=limit)

    async def _read(self, kind: type[_A], path: str, *, remediation_id: str, **parameters: Any) -> _A:
        headers = incident_headers(remediation_id)
        return await self._server.answer(kind, "GET", path, params=parameters, headers=headers)


def _asked(remediation_id: str) -> dict[str, Any]:
    """How a person asks."""
    return {"context": ContextReference(remediation_id=remediation_id), "caller": _CALLER, "browsing": True}


def _quoted(workflow_id: str) -> str:
    return quote(workflow_id, safe="/@")


@asynccontextmanager
async def served_catalog(url: str, *, token: str = "") -> AsyncIterator[Catalog]:
    """The catalog of the server at this address, asked with a bearer token if there is one.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    async with connected(url, token=token, seconds=_SECONDS) as server:
        yield ServedCatalog(server)
