"""Documents for tests: a catalog, incidents that ended, runbooks; and the service that finds them."""

from collections.abc import Iterable, Mapping
from typing import Any

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.knowledge.markdown import runbook_documents
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.loading.vectors import Reembedding
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.knowledge.incidents import IncidentDocuments
from formulary_catalog.store.knowledge.runbooks import RunbookWriter


async def embed_everything(writing: Database, embedder: Embedder) -> None:
    """What the background work of a server does: every workflow and document has a vector then."""
    await ModelStore(writing).adopt(embedder.model_id)
    await Reembedding(writing, embedder=embedder).complete()


async def read_ended_traces(writing: Database) -> None:
    """As if a quarter of an hour had gone by."""
    documents = IncidentDocuments(writing, quiet_seconds=0)
    while await documents.catch_up():
        pass


async def load_runbooks(writing: Database, files: Mapping[str, str], *, namespace: str = "formulary") -> None:
    """Store runbooks, by file name."""
    documents = [
        document
        for name, text in files.items()
        for document in runbook_documents(text.encode(), namespace=namespace, source_file=f"runbooks/{name}")
    ]
    await RunbookWriter(writing).replace(f"test:{namespace}", documents)


async def remedied(
    service: CatalogService, *, context: ContextReference, caller: Caller, query: str, reasoning: str, choice: str
) -> None:
    """One incident of which somebody searches and chooses, among five hits however little they fit."""
    answer = await service.search(search_request(query=query, context=context, top_k=5), caller=caller)
    await service.record_selection(
        workflow_id=choice, reasoning=reasoning, context=context, caller=caller, search_id=answer.search_id
    )


def sources(ids: Iterable[str]) -> set[str]:
    """The ids of the sources of documents."""
    return {each.partition("#")[0] for each in ids}


def texts(answer: Any) -> str:
    """All of an answer as text."""
    return str(answer.model_dump_json())
