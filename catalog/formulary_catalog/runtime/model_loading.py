"""Loading embedding models in the background, without delaying an exit."""

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.settings import Settings

Loaded = Embedder | EmbedderUnavailable
"""An embedder, or why there is none."""
_EXIT_SECONDS = 30.0
_log = structlog.get_logger(__name__)


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
