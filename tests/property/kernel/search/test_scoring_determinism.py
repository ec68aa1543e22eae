"""Same catalog, same request: the same answer, whatever the order in which the catalog was loaded."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import DEFAULT_TOP_K, SearchRequest, search_request
from formulary_catalog.domain.workflows.labels import CANONICAL_SIGNAL_TYPES, DIMENSIONS, SEVERITIES
from formulary_catalog.embedding import Embedder
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.databases import migrated_database
from support.examples import examples
from support.filling import fill, starter_documents
from support.services import open_parts, service_on

CALLER = Caller(name="test", access=EVERYTHING)
LABELS = ["critical", "high", "production", "test", "P0", "low", "Pod", "apps/v1/Deployment", "OOMKilled", "unheard-of"]
WORDS = ["memory", "exit", "code", "137", "disk", "full", "node", "drain", "restart", "certificate", "the", "zebra"]

requests = st.builds(
    search_request,
    query=st.tuples(
        st.sampled_from([*CANONICAL_SIGNAL_TYPES, "KubePodCrashLooping", ""]),
        st.sampled_from([*SEVERITIES, ""]),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    ).map(" ".join),
    labels=st.dictionaries(
        st.sampled_from(DIMENSIONS), st.lists(st.sampled_from(LABELS), min_size=1, max_size=2), max_size=2
    ),
    exclude_keywords=st.lists(st.sampled_from(WORDS), max_size=1),
    top_k=st.none() | st.integers(1, 50),
)


@asynccontextmanager
async def _service(
    documents: list[dict[str, Any]], *, postgres: EmbeddedPostgres, embedder: Embedder
) -> AsyncIterator[CatalogService]:
    async with migrated_database(postgres) as dsn:
        writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
        await fill(CatalogWriter(writing), documents, embedder=embedder)
        await writing.close()
        async with open_parts(dsn, embedder=embedder) as parts:
            yield service_on(parts)


@pytest.fixture(scope="module")
async def services(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path
) -> AsyncIterator[list[CatalogService]]:
    """The starter catalog twice, loaded in two orders."""
    documents = starter_documents(starter_catalog)
    shuffled = random.Random(7).sample(documents, len(documents))
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(_service(order, postgres=postgres, embedder=embedder))
            for order in (documents, shuffled)
        ]


@examples(few=8, many=60)
@given(request=requests)
async def test_equal_requests_get_equal_answers_in_falling_confidence(
    services: list[CatalogService], request: SearchRequest
) -> None:
    answers = [await service.search(request, caller=CALLER) for service in (*services, services[0])]
    first, *others = [answer.model_dump(exclude={"search_id", "time_ms"}) for answer in answers]
    assert all(other == first for other in others)
    assert len({answer.search_id for answer in answers}) == len(answers)
    confidences = [hit["confidence"] for hit in first["workflows"]]
    assert all(0 <= confidence <= 1 for confidence in confidences)
    assert all(one >= other for one, other in pairwise(confidences))
    if request.top_k is None:
        assert len(first["workflows"]) <= min(DEFAULT_TOP_K, first["total_results"])
    else:
        assert len(first["workflows"]) == min(request.top_k, first["total_results"])
