"""The embedders of a process that answers searches, one for each model of its catalog, and changing the model."""

import asyncio
import time
from collections.abc import Awaitable

import structlog

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.finding import find_embedder
from formulary_catalog.errors import EmbedderUnavailable, Unavailable
from formulary_catalog.loading.reembedding import Reembedding
from formulary_catalog.runtime.model_loading import Loaded, load_model, loading
from formulary_catalog.search.vectors import QueryVectors
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedding_models import EmbeddingModel, ModelStore
from formulary_catalog.store.workflows.reembedding import SWITCH_SECONDS, PreparationEnded, ReembeddingStore

LOOK_SECONDS = 5.0
"""How often a process looks at the models of its catalog."""

_RETRY_SECONDS = 60.0
_log = structlog.get_logger(__name__)
_CHANGE_RETRY_SECONDS = 10.0


class Embedders:
    """Gives searches the embedder of the model that serves, and that of a model that is being prepared.

    `own` is the model of the settings, being loaded. It is used if the catalog has no model yet, or uses that one.
    """

    def __init__(
        self, vectors: QueryVectors, *, models: ModelStore, settings: Settings, own: Awaitable[Loaded]
    ) -> None:
        self._vectors = vectors
        self._models = models
        self._settings = settings
        self._own = own
        self._loaded: dict[str, Embedder] = {}
        self.problem: EmbedderUnavailable | None = None
        """Why searches rank by words alone, if they do."""
        self._failures: dict[str, tuple[float, EmbedderUnavailable]] = {}
        self._coming: dict[str, asyncio.Future[Loaded]] = {}

    async def refresh(self) -> None:
        """Look at the models of the catalog, and load what is new among them.

        One that is being prepared is loaded in the background, and used from the first look after that.

        Raises:
            Unavailable: the database does not answer.
        """
        models = await self._models.models()
        self._vectors.set_models(models)
        own = await self._own
        if models.serving is None:
            serving: Loaded = own
        else:
            serving = await self._embedder(models.serving, own=own)
        preparing = await self._if_loaded(models.preparing, own=own) if models.preparing is not None else None
        self.problem = serving if isinstance(serving, EmbedderUnavailable) else None
        first, second = _usable(serving), _usable(preparing)
        self._loaded = {embedder.model_id: embedder for embedder in (first, second) if embedder is not None}
        self._vectors.use(
            first,
            preparing=second,
            problem=str(self.problem or ""),
            preparing_problem=str(preparing) if isinstance(preparing, EmbedderUnavailable) else "",
        )

    def use_own(self, own: Embedder) -> None:
        """Take the model of the settings into account that could not be loaded before; `refresh` does the rest."""
        loaded: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
        loaded.set_result(own)
        self._own = loaded

    async def keep_fresh(self) -> None:
        """Refresh every few seconds until cancelled: a change of the model is announced some time before it happens."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.refresh()
            except Unavailable:
                continue  # what was known last still holds

    async def _embedder(self, model: EmbeddingModel, *, own: Loaded) -> Loaded:
        return self._known(model, own=own) or await self._loading(model)

    async def _if_loaded(self, model: EmbeddingModel, *, own: Loaded) -> Loaded | None:
        """None while it is being loaded."""
        known = self._known(model, own=own)
        if known is not None:
            return known
        return await self._loading(model) if self._begun(model).done() else None

    def _known(self, model: EmbeddingModel, *, own: Loaded) -> Loaded | None:
        known = self._loaded.get(model.model_id)
        if known is not None:
            return known
        if not isinstance(own, EmbedderUnavailable) and own.model_id == model.model_id:
            return own
        failed_at, failure = self._failures.get(model.model_id, (0.0, None))
        if failure is not None and time.monotonic() - failed_at < _RETRY_SECONDS:
            return failure
        return None

    def _begun(self, model: EmbeddingModel) -> asyncio.Future[Loaded]:
        if model.model_id not in self._coming:
            self._coming[model.model_id] = loading(
                lambda: find_embedder(
                    model.model_id,
                    sources=(self._settings.embedding_model, model.source),
                    load=lambda source: load_model(source, settings=self._settings),
                )
            )
        return self._coming[model.model_id]

    async def _loading(self, model: EmbeddingModel) -> Loaded:
        found = await asyncio.shield(self._begun(model))
        self._coming.pop(model.model_id, None)
        if isinstance(found, EmbedderUnavailable):
            self._failures[model.model_id] = time.monotonic(), found
            _log.warning("model_unavailable", model=model.model_id, state=model.state, reason=str(found))
        else:
            _log.info("model_loaded", model=model.model_id, state=model.state)
        return found


def _usable(loaded: Loaded | None) -> Embedder | None:
    return None if isinstance(loaded, EmbedderUnavailable) else loaded


async def change_model(dsn: str, *, embedder: Embedder, source: str) -> None:
    """Re-embed the catalog with this model; tried again for as long as that may help."""
    while True:
        try:
            async with Database.opened(dsn, role=Role.WRITER, size=1, deadline=SWITCH_SECONDS) as database:
                report = await Reembedding(
                    models=ModelStore(database),
                    store=ReembeddingStore(database),
                    embedder=embedder,
                    source=source,
                    notice_seconds=2 * LOOK_SECONDS,
                ).run()
            _log.info("model_changed", model=report.model_id, before=report.before, workflows=report.workflows)
            return
        except PreparationEnded as error:
            _log.warning("model_not_changed", reason=str(error))
            return
        except Unavailable as error:
            _log.warning("model_change_waits", reason=str(error))
            await asyncio.sleep(_CHANGE_RETRY_SECONDS)
