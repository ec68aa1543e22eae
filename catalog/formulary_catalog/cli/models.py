"""Loading the embedding model beside other work, and without standing in the way of an exit."""

import asyncio
import threading
from collections.abc import Awaitable

from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.settings import Settings


def start_loading(settings: Settings) -> Awaitable[Embedder | EmbedderUnavailable]:
    """Begin to load the model; the result is the embedder, or why there is none.

    The thread is a daemon: the first load exports the model for some 15 s, and Ctrl-C shall not wait for that.
    """
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[Embedder | EmbedderUnavailable] = loop.create_future()

    def settle(result: Embedder | EmbedderUnavailable) -> None:
        if not loaded.done():
            loaded.set_result(result)

    def load() -> None:
        result: Embedder | EmbedderUnavailable
        try:
            result = load_embedder(settings.embedding_model, cache_dir=settings.model_cache_dir)
        except EmbedderUnavailable as error:
            result = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=load, name="model", daemon=True).start()
    return loaded
