"""Vectors for workflows that were stored without one, made in the background as soon as the model works."""

import asyncio

import structlog

from formulary_catalog.errors import EmbedderUnavailable, Unavailable
from formulary_catalog.loading.reembedding import Reembedding
from formulary_catalog.loading.vectors import unembedded
from formulary_catalog.runtime.model_registry import LOOK_SECONDS
from formulary_catalog.search.service import CatalogService
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.workflows.models import ModelStore
from formulary_catalog.store.workflows.reembedding import PreparationEnded, ReembeddingStore

_MOST_SECONDS_BETWEEN = 60.0
_UNREADABLE = "This release cannot read some manifests that an earlier one took; `formulary validate` says why."
_log = structlog.get_logger(__name__)


class Filling:
    """Sees to it that no workflow stays without a vector of the model that serves.

    It takes them from the catalog, not from files: what is served changes only where somebody asks for it.
    """

    def __init__(self, service: CatalogService, *, writing: Database) -> None:
        self._service = service
        self._models = ModelStore(writing)
        self._store = ReembeddingStore(writing)
        self.problem = ""
        """How many workflows lack a vector, and why; empty if none, or without a model, which is reported elsewhere."""

    async def keep_filling(self) -> None:
        """Look every few seconds until cancelled; later each time while that brings nothing to an end."""
        pause = LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            problem = await self._fill()
            if problem not in ("", self.problem):
                _log.warning("workflows_without_vector", reason=problem)
            self.problem = problem
            pause = min(2 * pause, _MOST_SECONDS_BETWEEN) if problem else LOOK_SECONDS

    async def _fill(self) -> str:
        """Embed what is missing; what is still missing then, and why."""
        embedder = self._service.embedder
        if embedder is None:
            return ""
        try:
            if not await self._store.unranked(embedder.model_id):
                return ""
            reason = await self._complete(
                Reembedding(models=self._models, store=self._store, embedder=embedder, source="")
            )
            missing = await self._store.unranked(embedder.model_id)
        except PreparationEnded:  # another model serves now, and its embedder comes with the next look at the models
            return ""
        except Unavailable:  # the database, which is reported elsewhere, or another process is at it
            return self.problem
        return unembedded(missing, because=reason) if missing and reason else ""

    async def _complete(self, reembedding: Reembedding) -> str:
        """Why not all could be embedded; empty if they could."""
        try:
            report = await reembedding.complete()
        except EmbedderUnavailable as error:
            return str(error)
        if report.embedded:
            _log.info("embedded_later", texts=report.embedded)
        return report.refusal or (_UNREADABLE if report.unreadable else "")
