"""The embedder of the operator: loaded when there is a text to embed, given back when there has been none for a while.

It is half of the operator's memory, and idle nearly all of the time. Loading it again takes about half a second.
"""

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import structlog

from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.embedding.model import locate
from formulary_catalog.errors import EmbedderUnavailable
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings

IDLE_SECONDS = 600.0

_RETRY_SECONDS = 60.0
_log = structlog.get_logger(__name__)
_T = TypeVar("_T")


class Embedding:
    """Gives vectors, or says why there are none; a failure is never a reason not to serve a workflow."""

    def __init__(
        self, settings: OperatorSettings, *, metrics: OperatorMetrics, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._idle_seconds = idle_seconds
        self._model_id = ""
        self._embedder: Embedder | None = None
        self._problem: EmbedderUnavailable | None = None
        self._failed_at = float("-inf")
        self._loading = asyncio.Lock()
        self._running = asyncio.Lock()
        self._giving_back: asyncio.TimerHandle | None = None

    async def model_id(self) -> str:
        """The model that vectors are to be of; empty while there can be none, which is tried again every minute."""
        async with self._loading:
            if self._model_id or not self._may_try():
                return self._model_id
            if self._problem is None:
                self._model_id = await self._try(lambda: locate(self._settings.embedding_model).id) or ""
            else:
                await self._load()  # that the model can be found is not enough after it could not be loaded
            return self._model_id

    @property
    def problem(self) -> EmbedderUnavailable | None:
        """Why the last attempt to load or to embed failed; None after a success."""
        return self._problem

    @property
    def is_loaded(self) -> bool:
        """Whether the embedder is in memory now."""
        return self._embedder is not None

    async def vector(self, text: str) -> npt.NDArray[np.float32] | None:
        """The vector of a text, float32 of shape (384,); None while there is no embedder or it fails."""
        embedder = await self._loaded()
        if embedder is None:
            return None
        try:
            async with self._running:  # each run of the model beside another takes memory that is never given back
                vectors = await asyncio.to_thread(embedder.embed_documents, [text])
        except EmbedderUnavailable as error:
            self._failed(error)
            return None
        finally:
            self._give_back_later()
        self._problem = None
        self._metrics.count_embedding("ok")
        vector: npt.NDArray[np.float32] = vectors[0]
        return vector

    async def _loaded(self) -> Embedder | None:
        async with self._loading:
            if self._embedder is None and self._may_try():
                await self._load()
            return self._embedder

    def _may_try(self) -> bool:
        return time.monotonic() - self._failed_at >= _RETRY_SECONDS

    async def _load(self) -> None:
        self._embedder = await self._try(self._new_embedder)
        if self._embedder is not None:
            self._model_id = self._embedder.model_id
            self._problem = None
            self._give_back_later()

    def _new_embedder(self) -> Embedder:
        embedder = load_embedder(self._settings.embedding_model, cache_dir=self._settings.model_cache_dir)
        _return_freed_memory()
        return embedder

    async def _try(self, work: Callable[[], _T]) -> _T | None:
        try:
            return await asyncio.to_thread(work)
        except EmbedderUnavailable as error:
            self._model_id = ""
            self._failed_at = time.monotonic()
            self._failed(error)
            return None

    def _failed(self, error: EmbedderUnavailable) -> None:
        self._problem = error
        self._metrics.count_embedding("failed")
        _log.warning("embedder_unavailable", reason=str(error))

    def _give_back_later(self) -> None:
        if self._giving_back is not None:
            self._giving_back.cancel()
        self._giving_back = asyncio.get_running_loop().call_later(self._idle_seconds, self._give_back)

    def _give_back(self) -> None:
        self._embedder = None
        gc.collect()  # it refers to itself, and would stay until the next full collection
        _return_freed_memory()


def _return_freed_memory() -> None:
    """Give the system back what was freed: glibc keeps it, tens of megabytes after a load. Other C libraries do not."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
