"""The product in one test: one client, one unchanging call, and only the AIAnalysis changes (DESIGN section 6)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.entry import catalog_entry, incident_context
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.edges.calls.readiness import Readiness, ReadinessState
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import Settings
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.agent import ERAS, agent, answer_of
from support.manifest import analysis, workflow
from support.serving import serving
from support.trail import recorded

pytestmark = pytest.mark.smoke

INCIDENT = {"X-Remediation-Id": "rr-checkout"}
CALLER = Caller(name="test", access=EVERYTHING)


async def _store(workflows: CatalogWriter, documents: Sequence[dict[str, Any]]) -> None:
    for document in documents:
        await workflows.apply(catalog_entry(document, source="test", default_namespace="formulary"))


async def _becomes(contexts: ContextWriter, document: dict[str, Any]) -> None:
    await contexts.save(incident_context(document, source="test", default_namespace="formulary"))


def _team(*names: str) -> dict[str, Any]:
    return analysis("checkout", remediation_id="rr-checkout", labels={"team": list(names)})


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_sends_the_same_call_gets_what_the_analysis_allows(
    workflows: CatalogWriter, contexts: ContextWriter, parts: CatalogParts, era: str
) -> None:
    labels = workflow("x")["spec"]["labels"]
    await _store(
        workflows,
        [
            workflow("for-all"),
            workflow("for-payments", customLabels={"team": ["payments"]}),
            workflow("for-search", customLabels={"team": ["search"]}),
            workflow("for-staging", labels={**labels, "environment": ["staging"]}),
        ],
    )
    async with serving(parts) as url, agent(url, mode=era, headers=INCIDENT) as client:

        async def found() -> set[str]:
            result = await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"})
            return {hit["workflow_id"] for hit in answer_of(result)["workflows"]}

        await _becomes(contexts, _team("payments"))
        assert await found() == {"for-all", "for-payments"}
        await _becomes(contexts, _team("search"))
        assert await found() == {"for-all", "for-search"}
        await _becomes(contexts, _team("search", "payments"))
        assert await found() == {"for-all", "for-search", "for-payments"}
        await _becomes(contexts, _team("nobody"))
        assert await found() == {"for-all"}
        await _becomes(contexts, analysis("checkout", remediation_id="rr-checkout", environment="staging"))
        assert await found() == {"for-staging"}
        strict = _team("search")
        strict["metadata"]["annotations"] = {"formulary.dev/strict-custom-labels": "team"}
        await _becomes(contexts, strict)
        assert await found() == {"for-search"}


class _Failing:
    """An embedder that stops working, and works again when told to. The real one cannot be made to fail on demand."""

    def __init__(self, real: Embedder) -> None:
        self._real = real
        self.model_id = real.model_id
        self.broken = False

    def embed_query(self, text: str) -> Any:
        if self.broken:
            raise EmbedderUnavailable("the model does not answer")
        return self._real.embed_query(text)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return self._real.embed_documents(texts)


async def test_an_embedder_that_fails_degrades_answers_and_readiness_until_it_works_again(
    workflows: CatalogWriter, service: CatalogService, parts: CatalogParts, embedder: Embedder
) -> None:
    failing = _Failing(embedder)
    parts.vectors.use(failing)
    entry = catalog_entry(workflow("oom"), source="test", default_namespace="formulary")
    (vector,) = embedder.embed_documents([entry.embedding_text])
    await workflows.save_vectors({entry.text_hash: vector}, model_id=embedder.model_id)
    await workflows.apply(entry, model_id=embedder.model_id)

    states = []
    for broken, query in (
        (False, "OOMKilled critical"),
        (True, "OOMKilled in checkout"),
        (False, "OOMKilled in orders"),
    ):
        failing.broken = broken
        answer = await service.search(search_request(query=query), caller=CALLER)
        report = await Readiness().report(Services.on(parts, settings=Settings()))
        states.append((answer.search_mode, report.status, report.mode))

    healthy = ("hybrid", ReadinessState.READY, "hybrid")
    assert states == [healthy, ("lexical", ReadinessState.DEGRADED, "lexical"), healthy]


async def test_a_call_that_is_given_up_leaves_its_audit_row(
    database: str, service: CatalogService, parts: CatalogParts, embedder: Embedder
) -> None:

    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(_Failing):
        def embed_query(self, text: str) -> Any:
            loop.call_soon_threadsafe(started.set)
            return super().embed_query(text)

    parts.vectors.use(Slow(embedder))
    call = asyncio.create_task(service.search(search_request(query="never seen before"), caller=CALLER))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    owner = await asyncpg.connect(database)
    outcomes = [row["outcome"] for row in await recorded(owner)]
    await owner.close()
    assert outcomes == ["Cancelled"]
