"""The embedder of the operator: loaded in the background, and again later where that failed."""

import asyncio
import time

import numpy as np
import numpy.typing as npt
import structlog

from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings

_RETRY_SECONDS = 60.0
_log = structlog.get_logger(__name__)


class Embedding:
    """Gives vectors, or says why there are none; a failure is never a reason not to serve a workflow."""

    def __init__(self, settings: OperatorSettings, *, metrics: OperatorMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._embedder: Embedder | None = None
        self._problem: EmbedderUnavailable | None = None
        self._asked_at = float("-inf")
        self._loading = asyncio.Lock()

    async def embedder(self) -> Embedder | None:
        """The embedder once it is loaded; None while it cannot be had, which is tried again every minute."""
        async with self._loading:
            if self._embedder is None and time.monotonic() - self._asked_at >= _RETRY_SECONDS:
                await self._load()
            return self._embedder

    @property
    def problem(self) -> EmbedderUnavailable | None:
        """Why the last attempt to load or to embed failed; None after a success."""
        return self._problem

    async def vector(self, text: str) -> npt.NDArray[np.float32] | None:
        """The vector of a text, float32 of shape (384,); None while there is no embedder or it fails."""
        embedder = await self.embedder()
        if embedder is None:
            return None
        try:
            vectors = await asyncio.to_thread(embedder.embed_documents, [text])
        except EmbedderUnavailable as error:
            self._failed(error)
            return None
        self._problem = None
        self._metrics.count_embedding("ok")
        vector: npt.NDArray[np.float32] = vectors[0]
        return vector

    async def _load(self) -> None:
        self._asked_at = time.monotonic()
        try:
            self._embedder = await asyncio.to_thread(
                load_embedder, self._settings.embedding_model, cache_dir=self._settings.model_cache_dir
            )
            self._problem = None
        except EmbedderUnavailable as error:
            self._failed(error)

    def _failed(self, error: EmbedderUnavailable) -> None:
        self._problem = error
        self._metrics.count_embedding("failed")
        _log.warning("embedder_unavailable", reason=str(error))
