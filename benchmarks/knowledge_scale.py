"""How long a search of documents takes among many: runbooks, past incidents and sections, next to a workflow search.

`bench_knowledge --scale` runs it. Texts are those of generated workflows, vectors are random: neither changes what a
statement has to read and compare. Searches of all kinds take turns, so that they share what else the machine does.
"""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from catalog_texts import Text, texts
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.domain.knowledge.incidents import past_incident
from formulary_catalog.domain.knowledge.markdown import runbook_documents
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.loading.files import starter_catalog
from formulary_catalog.services.knowledge.service import KnowledgeService
from formulary_catalog.store.database.connection import Connection, Database, Role
from formulary_catalog.store.database.tenancy import tenant_of
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.knowledge.documents import DocumentVectors, save_documents
from support.databases import migrated_database
from support.incident import call, recalled
from support.knowledge import embed_everything
from support.services import open_parts, service_on
from support.serving import load

NAMESPACE = "formulary"
WORKFLOWS, ALL = "workflow search", "all documents"
_RUNBOOKS, _SECTIONS, _INCIDENTS = 1000, 10, 10_000
_AT_ONCE = 1000
_WARM_UP = 10
_CALLER = Caller(name="bench", access=EVERYTHING)
Ask = Callable[[str], Awaitable[object]]


async def measure_scale(
    queries: Sequence[str], *, embedder: Embedder, postgres: EmbeddedPostgres
) -> Mapping[str, Sequence[float]]:
    """Seconds of each search by what was searched."""
    async with migrated_database(postgres) as dsn, Database.opened(dsn, role=Role.WRITER, deadline=300) as writing:
        await load([starter_catalog()], dsn=dsn, embedder=embedder)
        await embed_everything(writing, embedder)
        await _fill(writing, model_id=embedder.model_id)
        async with open_parts(dsn, embedder=embedder) as parts:
            return await _timed(queries, asks=_asks(parts))


def _asks(parts: CatalogParts) -> dict[str, Ask]:
    nowhere, catalog, knowledge = ContextReference(), service_on(parts), KnowledgeService(parts)

    def documents(collection: str) -> Ask:
        return lambda query: knowledge.search(query, context=nowhere, caller=_CALLER, collection=collection)

    return {
        WORKFLOWS: lambda query: catalog.search(search_request(query=query, context=nowhere), caller=_CALLER),
        ALL: documents(""),
        **{name: documents(name) for name in ("workflows", "incidents", "runbooks")},
    }


async def _timed(queries: Sequence[str], *, asks: Mapping[str, Ask]) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in asks}
    for number, query in enumerate([*queries[:_WARM_UP], *queries]):
        for name, ask in asks.items():
            began = time.perf_counter()
            await ask(query)
            if number >= _WARM_UP:
                seconds[name].append(time.perf_counter() - began)
    return seconds


async def _fill(writing: Database, *, model_id: str) -> None:
    """Store the documents, and a vector for each text."""
    rng = random.Random(7)
    directions = np.random.default_rng(7)
    for origin, documents in (("directory:bench", _runbooks(rng)), ("", _incidents(rng))):
        while portion := list(islice(documents, _AT_ONCE)):
            await _save(writing, portion, origin=origin)
            vectors = directions.standard_normal((len(portion), 384), dtype=np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            by_hash = {each.text_hash: vector for each, vector in zip(portion, vectors, strict=True)}
            await DocumentVectors(writing).save(model_id, by_hash)


async def _save(writing: Database, documents: Sequence[Document], *, origin: str) -> None:
    async def write(connection: Connection) -> None:
        tenant_id = await tenant_of(connection, namespace=NAMESPACE)
        await save_documents(connection, documents, tenant_id=tenant_id, origin=origin)

    await writing.write(write)


def _runbooks(rng: random.Random) -> Iterator[Document]:
    for number in range(_RUNBOOKS):
        said = "\n".join(f"## {each.stem}\n\n{each.what} {each.when_to_use}\n" for each in _some(rng, _SECTIONS))
        yield from runbook_documents(
            f"# Runbook {number}\n\n{said}".encode(), namespace=NAMESPACE, source_file=f"bench/{number}.md"
        )


def _incidents(rng: random.Random) -> Iterator[Document]:
    """Incidents of which each chose a workflow of the starter catalog, after one search."""
    names = sorted(path.stem for path in Path(starter_catalog()).rglob("*.yaml"))
    for number in range(_INCIDENTS):
        trace_id, chosen = f"rr-{number}", rng.choice(names)
        asked, reason = _some(rng, 2)
        search = {"query": f"{asked.signals[0]} critical {asked.when_to_use}"}
        choice = {"workflow_id": chosen, "reasoning": reason.what}
        result = {"namespace": NAMESPACE, "supported": True}
        happened = [(0, "search", call(arguments=search)), (1, "selection", call(arguments=choice, result=result))]
        past = past_incident(trace_id, recalled(trace_id, happened))
        assert past is not None
        yield from (replace(each, namespace=NAMESPACE) for each in past.documents(known=()))


def _some(rng: random.Random, number: int) -> list[Text]:
    return rng.sample(texts(), number)
