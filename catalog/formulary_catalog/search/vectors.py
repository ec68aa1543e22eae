"""Vectors of queries: computed, remembered, or given by the caller; none while the embedder fails.

`search/pipeline` calls it. Equal queries that arrive at the same time are embedded once. Without a vector words alone
rank, and the answer says so: a failed model must not stop remediation.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import structlog
from cachetools import LRUCache

from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.store.embedding_models import Models
from formulary_catalog.store.search.distances import VectorsByModel

_Vector: TypeAlias = npt.NDArray[np.float32]
_REMEMBERED = 4096
"""Queries by each model."""
_log = structlog.get_logger(__name__)


class QueryVectors:
    """Embeds queries in threads of its own, `at_once` of them; remembers whether that works, and sets the metric.

    Other work in threads, such as embedding a whole catalog, would hold up searches for as long as it takes. A query
    that is remembered costs no thread, and one that many ask at once is embedded once.

    `embedder` is of the model that serves. While another model is being prepared, queries are embedded by that one as
    well: from one moment to the next it is the one that searches need. `runtime/model_registry` sets both.
    """

    def __init__(self, *, metrics: Metrics, at_once: int) -> None:
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="query")
        self.embedder: Embedder | None = None
        self.preparing: Embedder | None = None
        self._remembered: dict[Embedder, LRUCache[str, asyncio.Future[_Vector]]] = {}
        """By embedder, the last queries: embedded, or on their way."""
        self._probed: set[Embedder] = set()
        """Those that are being asked whether they work again."""
        self._problems: dict[str, str] = {}
        """By the id of the model, why its last query failed; only of those whose last query did."""
        self._no_embedder = ""
        self.preparing_problem = ""
        """Why there is no embedder of a model that is being prepared; empty if there is one, or nothing prepared."""
        self.models = Models()
        """The embedding models of the catalog, as known last."""

    def use(
        self,
        embedder: Embedder | None,
        *,
        preparing: Embedder | None = None,
        problem: str = "",
        preparing_problem: str = "",
    ) -> None:
        """Start or stop embedding. The problems say why there is no embedder."""
        self._no_embedder, self.preparing_problem = problem, preparing_problem
        if embedder is not self.embedder:
            self._problems.clear()
        self.embedder, self.preparing = embedder, preparing
        used = [each for each in (embedder, preparing) if each is not None]
        self._remembered = {each: self._remembered.get(each, LRUCache(_REMEMBERED)) for each in used}
        self._metrics.set_embedder_up(self.works)

    def set_models(self, models: Models) -> None:
        """Take note of the embedding models of the catalog."""
        self.models = models
        preparing = models.preparing
        self._metrics.set_reembedding((preparing.done, preparing.total) if preparing is not None else None)

    @property
    def works(self) -> bool:
        """Whether there is an embedder and its last query worked: searches rank by meaning."""
        return self.embedder is not None and not self._failure

    @property
    def problem(self) -> str:
        """Why searches rank by words alone; empty where they do not, or where nothing else was asked for."""
        return self._failure or self._no_embedder

    @property
    def _failure(self) -> str:
        """Why the model that serves failed when it was asked last; empty if it did not."""
        return self._problems.get(self.embedder.model_id, "") if self.embedder is not None else ""

    async def of(self, text: str, *, given: tuple[float, ...] | None = None) -> VectorsByModel:
        """The vectors of a text, or the `given` one; empty where there can be none.

        All models are asked at the same time: one that does not answer costs its timeout once.
        """
        if given is not None:
            return {self.embedder.model_id: _unit(given)} if self.embedder is not None else {}
        return await _known({each.model_id: self._asked(text, embedder=each) for each in [*self._remembered]})

    def close(self) -> None:
        """Embed nothing any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _asked(self, text: str, *, embedder: Embedder) -> "asyncio.Future[_Vector]":
        remembered = self._remembered[embedder]
        known = remembered.get(text)
        self._metrics.count_cache_lookup("query_vectors", hit=known is not None, entries=len(remembered))
        if known is None:
            asked = remembered[text] = self._ask(text, embedder=embedder)
            asked.add_done_callback(lambda asked: remembered.pop(text, None) if _failed(asked) else None)
            return asked
        if known.done() and embedder.model_id in self._problems and embedder not in self._probed:
            # Nobody waits for it, so there is but one: it finds out whether the model works again.
            self._probed.add(embedder)
            self._ask(text, embedder=embedder).add_done_callback(lambda _: self._probed.discard(embedder))
        return known

    def _ask(self, text: str, *, embedder: Embedder) -> "asyncio.Future[_Vector]":
        def ended(asked: "asyncio.Future[_Vector]") -> None:
            error = None if asked.cancelled() else asked.exception()
            if not asked.cancelled() and (error is None or isinstance(error, EmbedderUnavailable)):
                self._note(str(error or ""), embedder=embedder)

        asked = asyncio.get_running_loop().run_in_executor(self._threads, embedder.embed_query, text)
        asked.add_done_callback(ended)
        return asked

    def _note(self, problem: str, *, embedder: Embedder) -> None:
        if problem == self._problems.get(embedder.model_id, ""):
            return
        if problem:
            self._problems[embedder.model_id] = problem
            _log.warning("embedder_failed", model=embedder.model_id, reason=problem)
        else:
            del self._problems[embedder.model_id]
            _log.info("embedder_works_again", model=embedder.model_id)
        if embedder is self.embedder:
            self._metrics.set_embedder_up(not problem)


async def _known(asked: Mapping[str, "asyncio.Future[_Vector]"]) -> VectorsByModel:
    """The vectors of a text by the models that have given one."""
    vectors = {}
    for model_id, each in asked.items():
        with suppress(EmbedderUnavailable):
            # Who gives up does so alone: others may wait for the same vector.
            vectors[model_id] = each.result() if each.done() else await asyncio.shield(each)
    return vectors


def _failed(asked: "asyncio.Future[_Vector]") -> bool:
    return asked.cancelled() or asked.exception() is not None


def _unit(vector: tuple[float, ...]) -> npt.NDArray[np.float32]:
    array = np.asarray(vector, dtype=np.float64)
    array /= np.abs(array).max()  # else very large or very small numbers leave the range when they are squared
    return (array / np.linalg.norm(array)).astype(np.float32)
