"""Vectors of queries: computed, remembered, or given by the caller; none while the embedder fails.

`kernel/search/pipeline` calls it. Equal queries that arrive at the same time are embedded once. Without a vector words
alone rank, and the answer says so: a failed model must not stop remediation.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import structlog
from cachetools import LRUCache

from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.store.search.distances import ModelVector

_Vector: TypeAlias = npt.NDArray[np.float32]
_REMEMBERED = 4096
"""Queries."""
_log = structlog.get_logger(__name__)


class QueryVectors:
    """Embeds queries in threads of its own, `at_once` of them; remembers whether that works, and sets the metric.

    Other work in threads, such as embedding a whole catalog, would hold up searches for as long as it takes. A query
    that is remembered costs no thread, and one that many ask at once is embedded once.

    `runtime/model_watch` says which embedder, and that there is none while the catalog has vectors of another model.
    """

    def __init__(self, *, metrics: Metrics, at_once: int) -> None:
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="query")
        self.embedder: Embedder | None = None
        self._remembered: LRUCache[str, asyncio.Future[_Vector]] = LRUCache(_REMEMBERED)
        """The last queries: embedded, or on their way."""
        self._is_probed = False
        """Whether the embedder is being asked if it works again."""
        self._failure = ""
        """Why the embedder failed when it was asked last; empty if it did not."""
        self._no_embedder = ""

    def use(self, embedder: Embedder | None, *, problem: str = "") -> None:
        """Start or stop embedding; `problem` says why there is no embedder."""
        self._no_embedder = problem
        if embedder is not self.embedder:
            self.embedder, self._failure, self._is_probed = embedder, "", False
            self._remembered = LRUCache(_REMEMBERED)
        self._metrics.set_embedder_up(self.works)

    @property
    def works(self) -> bool:
        """Whether there is an embedder and its last query worked: searches rank by meaning."""
        return self.embedder is not None and not self._failure

    @property
    def problem(self) -> str:
        """Why searches rank by words alone; empty where they do not, or where nothing else was asked for."""
        return self._failure or self._no_embedder

    async def of(self, text: str, *, given: tuple[float, ...] | None = None) -> ModelVector | None:
        """The vector of a text, or the `given` one; None where there can be none."""
        embedder = self.embedder
        if embedder is None:
            return None
        if given is not None:
            return ModelVector(embedder.model_id, _unit(given))
        asked = self._asked(text, embedder=embedder)
        try:
            # Who gives up does so alone: others may wait for the same vector.
            vector = asked.result() if asked.done() else await asyncio.shield(asked)
        except EmbedderUnavailable:
            return None
        return ModelVector(embedder.model_id, vector)

    def close(self) -> None:
        """Embed nothing any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _asked(self, text: str, *, embedder: Embedder) -> "asyncio.Future[_Vector]":
        remembered = self._remembered
        known = remembered.get(text)
        self._metrics.count_cache_lookup("query_vectors", hit=known is not None, entries=len(remembered))
        if known is None:
            asked = remembered[text] = self._ask(text, embedder=embedder)
            asked.add_done_callback(lambda asked: remembered.pop(text, None) if _failed(asked) else None)
            return asked
        if known.done() and self._failure and not self._is_probed:
            # Nobody waits for it, so there is but one: it finds out whether the model works again.
            self._is_probed = True
            self._ask(text, embedder=embedder).add_done_callback(lambda _: self._probe_ended(embedder))
        return known

    def _ask(self, text: str, *, embedder: Embedder) -> "asyncio.Future[_Vector]":
        def ended(asked: "asyncio.Future[_Vector]") -> None:
            error = None if asked.cancelled() else asked.exception()
            if not asked.cancelled() and (error is None or isinstance(error, EmbedderUnavailable)):
                self._note(str(error or ""), embedder=embedder)

        asked = asyncio.get_running_loop().run_in_executor(self._threads, embedder.embed_query, text)
        asked.add_done_callback(ended)
        return asked

    def _probe_ended(self, embedder: Embedder) -> None:
        if embedder is self.embedder:
            self._is_probed = False

    def _note(self, problem: str, *, embedder: Embedder) -> None:
        if embedder is not self.embedder or problem == self._failure:
            return
        self._failure = problem
        if problem:
            _log.warning("embedder_failed", model=embedder.model_id, reason=problem)
        else:
            _log.info("embedder_works_again", model=embedder.model_id)
        self._metrics.set_embedder_up(not problem)


def _failed(asked: "asyncio.Future[_Vector]") -> bool:
    return asked.cancelled() or asked.exception() is not None


def _unit(vector: tuple[float, ...]) -> npt.NDArray[np.float32]:
    array = np.asarray(vector, dtype=np.float64)
    array /= np.abs(array).max()  # else very large or very small numbers leave the range when they are squared
    return (array / np.linalg.norm(array)).astype(np.float32)
