"""What is made in the background: vectors of workflows and documents that have none, documents of ended incidents."""

import asyncio
from contextlib import suppress

import structlog

from formulary_catalog.errors import EmbedderUnavailable, Unavailable
from formulary_catalog.kernel.search.vectors import QueryVectors
from formulary_catalog.loading.vectors import Reembedding, unembedded
from formulary_catalog.runtime.model_watch import LOOK_SECONDS
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.knowledge.incidents import IncidentDocuments
from formulary_catalog.store.workflows.reembedding import ReembeddingStore

_MOST_SECONDS_BETWEEN = 60.0
_UNREADABLE = "This release cannot read some manifests that an earlier one took; `formulary validate` says why."
_log = structlog.get_logger(__name__)


class Filling:
    """Sees to it that no workflow and no document stays without a vector of the model that serves.

    It takes them from the catalog, not from files: what is served changes only where somebody asks for it.
    """

    def __init__(self, vectors: QueryVectors, *, writing: Database) -> None:
        self._vectors = vectors
        self._writing = writing
        self._store = ReembeddingStore(writing)
        self._incidents = IncidentDocuments(writing)
        self._documents_left = 0
        """How many documents have no vector after all was tried: the model may refuse some, which words still find."""
        self.problem = ""
        """How many workflows lack a vector, and why; empty if none, or without a model, which is reported elsewhere."""

    async def keep_filling(self) -> None:
        """Look every few seconds until cancelled; later each time while that brings nothing to an end."""
        pause = LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            with suppress(Unavailable):  # which is reported elsewhere
                await self._incidents.catch_up()
            problem = await self._fill()
            if problem not in ("", self.problem):
                _log.warning("workflows_without_vector", reason=problem)
            self.problem = problem
            pause = min(2 * pause, _MOST_SECONDS_BETWEEN) if problem or self._documents_left else LOOK_SECONDS

    async def _fill(self) -> str:
        """Embed what is missing; what is still missing then, and why."""
        embedder = self._vectors.embedder
        if embedder is None:
            return ""
        try:
            model_id = embedder.model_id
            if not await self._store.unranked(model_id) and not await self._store.documents.unranked(model_id):
                return ""
            reason = await self._complete(Reembedding(self._writing, embedder=embedder))
            missing = await self._store.unranked(model_id)
            self._documents_left = await self._store.documents.unranked(model_id)
        except Unavailable:  # the database, which is reported elsewhere, or another process is at it
            return self.problem
        return unembedded(missing, because=reason) if missing and reason else ""

    async def _complete(self, reembedding: Reembedding) -> str:
        """Why not all could be embedded; empty if they could."""
        try:
            report = await reembedding.complete()
        except EmbedderUnavailable as error:
            return str(error)
        if texts := report.embedded + report.documents:
            _log.info("embedded_later", texts=texts)
        return report.refusal or (_UNREADABLE if report.unreadable else "")
