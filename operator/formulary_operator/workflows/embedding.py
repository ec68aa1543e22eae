"""The embedder of the operator: loaded when there is a text to embed, given back when there has been none for a while.

It is half of the operator's memory, and idle nearly all of the time. Loading it again takes about half a second. A
standby keeps it: a new leader has texts to embed at once.
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
from formulary_catalog.embedding.endpoint import is_remote
from formulary_catalog.embedding.model import locate, other_model_serves
from formulary_catalog.errors import EmbedderUnavailable, TextsRefused
from formulary_catalog.store.embedding_models import ModelStore
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings

IDLE_SECONDS = 600.0

_RETRY_SECONDS = 60.0
# How long a model that has failed is left alone: each attempt may take seconds, and there may be thousands of texts.
_LEFT_ALONE_SECONDS = 5.0
_log = structlog.get_logger(__name__)
_T = TypeVar("_T")


class Embedding:
    """Gives vectors, or says why there are none; a failure is never a reason not to serve a workflow."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        models: ModelStore,
        metrics: OperatorMetrics,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._settings = settings
        self._models = models
        self._metrics = metrics
        self._idle_seconds = idle_seconds
        self._model_id = ""
        self._mismatch: EmbedderUnavailable | None = None
        self._embedder: Embedder | None = None
        self._problem: EmbedderUnavailable | None = None
        self._failed_at = float("-inf")
        self._left_alone_until = 0.0
        self._loading = asyncio.Lock()
        self._running = asyncio.Lock()
        self._giving_back: asyncio.TimerHandle | None = None
        self._kept = False

    async def model_id(self) -> str:
        """The model that vectors are to be of; empty while there can be none, which is tried again every minute.

        It is that of the settings, as long as the catalog is served with it or has none yet.

        Raises:
            Unavailable: the database does not answer.
        """
        if not self._model_id and self._is_tried():
            return ""
        async with self._loading:
            if not self._model_id and self._may_try():
                await self._identify()
            own = self._model_id
            return own if own and await self._serves(own) else ""

    @property
    def problem(self) -> EmbedderUnavailable | None:
        """Why there are no vectors now; None after a success."""
        return self._mismatch or self._problem

    async def warm_up(self) -> None:
        """Load the model before there is a text, and keep it until `cool_down`: the first one need not wait for it."""
        self._kept = True
        await self._loaded()

    def cool_down(self) -> None:
        """Give the model back when it is idle again, after `warm_up`."""
        if self._kept:
            self._kept = False
            self._give_back_later()

    async def vector(self, text: str, *, model_id: str) -> npt.NDArray[np.float32] | None:
        """The vector of a text, float32 of shape (384,); None while there is no embedder of this model or it fails.

        A model that fails holds up one caller at a time, and none for some seconds after it.
        """
        embedder = await self._loaded()
        if embedder is None or embedder.model_id != model_id:
            return None
        if self._left_alone_until and self._running.locked():  # somebody finds out just now if it works again
            return None
        async with self._running:  # each concurrent run of the model takes memory that is never given back
            if time.monotonic() < self._left_alone_until:
                return None
            return await self._embedded(text, embedder=embedder)

    async def _embedded(self, text: str, *, embedder: Embedder) -> npt.NDArray[np.float32] | None:
        try:
            vectors = await asyncio.to_thread(embedder.embed_documents, [text])
        except EmbedderUnavailable as error:
            if not isinstance(error, TextsRefused):  # that is about this text alone
                self._left_alone_until = time.monotonic() + _LEFT_ALONE_SECONDS
            self._failed(error)
            return None
        finally:
            self._give_back_later()
        self._problem, self._left_alone_until = None, 0.0
        self._metrics.count_embedding("ok")
        vector: npt.NDArray[np.float32] = vectors[0]
        return vector

    async def _identify(self) -> None:
        source = self._settings.embedding_model
        if is_remote(source) or self._problem is not None:
            await self._load()  # that the model can be named is not enough after it could not be loaded
        else:
            self._model_id = await self._try(lambda: locate(source).id) or ""

    async def _serves(self, own: str) -> bool:
        """Whether the catalog is served with this model, which becomes its first if it has none."""
        serving = await self._models.adopt(own)
        if serving == own:
            self._mismatch = None
            return True
        mismatch = other_model_serves(serving, own=own, source=self._settings.embedding_model)
        if str(mismatch) != str(self._mismatch):
            _log.warning("embedder_unavailable", reason=str(mismatch))
        self._mismatch = mismatch
        return False

    def _is_tried(self) -> bool:
        """Whether somebody finds out just now if a model that did not load does; nobody else has to wait for that."""
        return self._problem is not None and self._embedder is None and self._loading.locked()

    async def _loaded(self) -> Embedder | None:
        if self._is_tried():
            return None
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
        embedder = load_embedder(
            self._settings.embedding_model,
            backend=self._settings.embedding_backend,
            runs=1,  # objects are embedded one after another
            cache_dir=self._settings.model_cache_dir,
            api_key=self._settings.embedding_api_key,
            patience_seconds=0,
        )
        _return_freed_memory()
        return embedder

    async def _try(self, work: Callable[[], _T]) -> _T | None:
        try:
            return await asyncio.to_thread(work)
        except EmbedderUnavailable as error:
            problem = error
        except Exception as error:  # a model is never a reason not to serve a workflow
            _log.error("model_load_crashed", exc_info=error)
            problem = EmbedderUnavailable(f"The embedding model could not be loaded ({type(error).__name__}).")
        self._model_id = ""
        self._failed_at = time.monotonic()
        self._failed(problem)
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
        if self._kept:
            return
        self._embedder = None
        gc.collect()  # it refers to itself, and would stay until the next full collection
        _return_freed_memory()


def _return_freed_memory() -> None:
    """Give the system back what was freed: glibc keeps it, tens of megabytes after a load. Other C libraries do not."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
