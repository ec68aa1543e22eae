"""Whether searches may use the embedding model of the settings: only while the catalog is served with that model.

`runtime/serving_process` and `runtime/standalone` keep one running. Vectors of two models say nothing about each other,
so a process whose model is another one ranks by words and says what to run.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import other_model_serves
from formulary_catalog.errors import EmbedderUnavailable, Unavailable
from formulary_catalog.kernel.search.vectors import QueryVectors
from formulary_catalog.runtime.model_loading import Loaded, start_loading
from formulary_catalog.settings import Settings
from formulary_catalog.store.embedding_models import ModelStore

LOOK_SECONDS = 5.0
"""How often a process looks at the model of its catalog."""

RETRY_SECONDS = 60.0
"""How long after a failed attempt to load the model of the settings there is another one."""

_log = structlog.get_logger(__name__)


class ModelWatch:
    """Gives searches the embedder of the settings, or none.

    `own` is that embedder, being loaded. `claim`, if given, is awaited once before it is used: it makes the model that
    of the catalog, or raises `EmbedderUnavailable` and is awaited again at the next look.
    """

    def __init__(
        self,
        vectors: QueryVectors,
        *,
        models: ModelStore,
        settings: Settings,
        own: Awaitable[Loaded],
        claim: Callable[[Embedder], Awaitable[None]] | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._vectors = vectors
        self._models = models
        self._settings = settings
        self._own = own
        self._claim = claim
        self._retry_seconds = retry_seconds
        self._tried_at = time.monotonic()
        self.problem: EmbedderUnavailable | None = None
        """Why searches rank by words alone, if they do."""

    async def refresh(self) -> None:
        """Look at the model of the catalog, and load that of the settings again if it failed some time ago.

        Raises:
            Unavailable: the database does not answer.
        """
        found = await self._usable()
        if isinstance(found, EmbedderUnavailable):
            self.problem = found
            self._vectors.use(None, problem=str(found))
        else:
            self.problem = None
            self._vectors.use(found)

    async def keep_fresh(self) -> None:
        """Refresh every few seconds until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before = str(self.problem or "")
            try:
                await self.refresh()
            except Unavailable:
                continue  # what was known last still holds
            now = str(self.problem or "")
            if now and now != before:
                _log.warning("embedder_unavailable", mode="lexical", reason=now)
            elif before and not now:
                _log.info("embedder_available")

    async def _usable(self) -> Loaded:
        own = await self._own
        if isinstance(own, EmbedderUnavailable) and time.monotonic() - self._tried_at >= self._retry_seconds:
            self._tried_at = time.monotonic()
            self._own = start_loading(self._settings)
            own = await self._own
        if isinstance(own, EmbedderUnavailable):
            return own
        if self._claim is not None:
            try:
                await self._claim(own)
            except EmbedderUnavailable as error:
                return error
            self._claim = None
        serving = await self._models.serving()
        if serving in ("", own.model_id):
            return own
        return other_model_serves(serving, own=own.model_id, source=self._settings.embedding_model)
