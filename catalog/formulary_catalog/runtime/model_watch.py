"""Whether searches may use the embedding model of the settings: only while the catalog is served with that model.

`runtime/serving_process` and `runtime/standalone` keep one running. Vectors of two models say nothing about each other,
so a process whose model is another one ranks by words and says what to run. Models are loaded in the background, which
delays neither the start nor the exit of a process.
"""

import asyncio
import atexit
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.embedding.model import other_model_serves
from formulary_catalog.errors import EmbedderUnavailable, Unavailable
from formulary_catalog.kernel.search.vectors import QueryVectors
from formulary_catalog.settings import Settings
from formulary_catalog.store.embedding_models import ModelStore

LOOK_SECONDS = 5.0
"""How often a process looks at the model of its catalog."""

RETRY_SECONDS = 60.0
"""How long after a failed attempt to load the model of the settings there is another one."""

Loaded = Embedder | EmbedderUnavailable
"""An embedder, or why there is none."""
_EXIT_SECONDS = 30.0
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


def start_loading(settings: Settings, *, source: str = "", patience_seconds: float = 0) -> Awaitable[Loaded]:
    """Begin to load the model at a place as in the setting, by default that of the settings."""
    asked = source or settings.embedding_model
    return loading(lambda: load_model(asked, settings=settings, patience_seconds=patience_seconds))


def load_model(source: str, *, settings: Settings, patience_seconds: float = 0) -> Embedder:
    """The model at a place as in the setting, blocking.

    An endpoint is asked for documents again for `patience_seconds`. A process that serves has none: others would wait
    behind it, and it comes back later anyway.

    Raises:
        EmbedderUnavailable: it cannot be loaded.
    """
    return load_embedder(
        source,
        backend=settings.embedding_backend,
        cache_dir=settings.model_cache_dir,
        # An endpoint that is named elsewhere is none that the key was given for.
        api_key=settings.embedding_api_key if source == settings.embedding_model else "",
        query_seconds=settings.embedding_timeout_ms / 1000,
        patience_seconds=patience_seconds,
    )


def loading(load: Callable[[], Embedder]) -> asyncio.Future[Loaded]:
    """Begin to load a model.

    The thread is a daemon: a load takes seconds with some backends, and Ctrl-C shall not wait for that. It does wait a
    little, since a process that ends in the middle of the native part of a load aborts.
    """
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[Loaded] = loop.create_future()

    def settle(result: Loaded) -> None:
        if not loaded.done():
            loaded.set_result(result)

    def run() -> None:
        result: Loaded
        try:
            result = load()
        except EmbedderUnavailable as error:
            result = error
        except Exception as error:  # the callers that wait for the model would wait for ever
            _log.error("model_load_crashed", exc_info=error)
            result = EmbedderUnavailable(f"The embedding model could not be loaded ({type(error).__name__}).")
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result)
        atexit.unregister(wait)

    thread = threading.Thread(target=run, name="model", daemon=True)
    wait = partial(thread.join, timeout=_EXIT_SECONDS)
    atexit.register(wait)
    thread.start()
    return loaded
