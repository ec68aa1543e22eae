"""The embedder that asks an endpoint, for those who run their models elsewhere."""

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np
import tenacity
from circuitbreaker import CircuitBreaker  # type: ignore[import-untyped]  # it ships no types

from formulary_catalog.embedding.batching import Vectors
from formulary_catalog.embedding.endpoint import Dialect, Endpoint
from formulary_catalog.embedding.exchange import EndpointFailed, Exchange
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS, encodable
from formulary_catalog.errors import TextsRefused

_SHORT_SECONDS, _DOCUMENTS_SECONDS = 5.0, 15.0
_DOCUMENTS_AT_ONCE = 32
# No model takes less than that; about as much as the bundled one reads of a text.
_CHARACTERS_TAKEN = 1000
# So many failures in a row, and it is left alone for that long.
_FAILURES, _LEFT_ALONE_SECONDS = 3, 5.0
_INFO_BYTES = 64 * 1024
_VECTOR_BYTES = 128 * 1024
_PROBE = "A container was killed because it used more memory than its limit allows."
# Rounding, batching and quantising move a vector by less than that; that of another model points elsewhere.
_SAME_MODEL_COSINE = 0.99
_NORM_TOLERANCE = 0.01

_T = TypeVar("_T")


class WrongDimensions(EndpointFailed):
    """The vectors are longer or shorter than those of the catalog."""


class RemoteEmbedder:
    """Unit vectors of 384 float32 from an endpoint. Thread-safe.

    Every answer is checked. With every question the vector of a fixed text is asked for as well: if it is not what it
    was at first, that server has another model, and the vectors are refused. One address may have many servers.
    """

    def __init__(self, endpoint: Endpoint, *, api_key: str, query_seconds: float, patience_seconds: float) -> None:
        """Ask the endpoint who it is; `EmbedderUnavailable` if it cannot be used now."""
        self._endpoint = endpoint
        self._query_seconds = query_seconds
        self._patience_seconds = patience_seconds
        self._exchange = Exchange(endpoint.url, api_key=api_key)
        weakref.finalize(self, _close, self._exchange).atexit = False
        # Apart from each other: who takes no documents may well answer queries.
        self._for_queries, self._for_documents = _breaker(), _breaker()
        self._dimensions: int | None = None
        self._probe: Vectors | None = None
        self.model_id, self._most_texts = _wait(self._introduce())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (n, 384), read-only, in the order of the texts.

        Asks again, later and later, while its patience lasts. Raises `EmbedderUnavailable` after that, `TextsRefused`
        if it does not take one of the texts, or not so many.
        """
        vectors = np.empty((len(texts), VECTOR_DIMENSIONS), np.float32)
        for start in range(0, len(texts), self._most_texts):
            portion = texts[start : start + self._most_texts]
            vectors[start : start + len(portion)] = _wait(self._portion(portion))
        vectors.flags.writeable = False
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """The vector of shape (384,), read-only.

        Raises `EmbedderUnavailable` if the endpoint does not give it in time, or has failed too often just now.
        """
        return _wait(self._vector(text))

    async def _introduce(self) -> tuple[str, int]:
        """The id of the model, and how many texts it takes in addition to the fixed one."""
        info = None
        if self._endpoint.dialect is Dialect.TEI:
            info = await self._exchange.json("GET", "/info", seconds=_SHORT_SECONDS, most_bytes=_INFO_BYTES)
        model_id = self._endpoint.model_id(info)
        try:
            await self._ask([], seconds=_SHORT_SECONDS)
        except WrongDimensions:
            if self._endpoint.dialect is Dialect.TEI:
                raise
            self._dimensions = VECTOR_DIMENSIONS  # some models can shorten their vectors, if they are asked to
            await self._ask([], seconds=_SHORT_SECONDS)
        most_texts = min(_DOCUMENTS_AT_ONCE, self._endpoint.most_texts(info) or _DOCUMENTS_AT_ONCE)
        return model_id, max(1, most_texts - 1)

    async def _vector(self, text: str) -> Vectors:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._query_seconds
        try:
            vectors = await self._guarded([text], by=self._for_queries, seconds=self._query_seconds)
        except TextsRefused as refusal:
            shortened = _shortened(text, refusal=refusal)
            vectors = await self._guarded([shortened], by=self._for_queries, seconds=deadline - loop.time())
        except EndpointFailed as error:
            left = deadline - loop.time()
            if error.answered or left < self._query_seconds / 2:
                raise
            # A kept connection may have been closed by the other side: that says nothing about the endpoint.
            vectors = await self._guarded([text], by=self._for_queries, seconds=left)
        vectors.flags.writeable = False
        vector: Vectors = vectors[0]
        return vector

    async def _portion(self, texts: Sequence[str]) -> Vectors:
        try:
            return await self._patiently(texts)
        except TextsRefused as refusal:
            if len(texts) > 1:
                raise  # who asked for them knows which are worth asking for apart
            return await self._patiently([_shortened(texts[0], refusal=refusal)])

    async def _patiently(self, texts: Sequence[str]) -> Vectors:
        """The vectors, asked for again for as long as a bulk may wait."""
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, EndpointFailed) and error.passes),
            wait=_pause,
            stop=tenacity.stop_before_delay(self._patience_seconds),
            reraise=True,
        )
        seconds = _DOCUMENTS_SECONDS if len(texts) > 1 else _SHORT_SECONDS
        return await retrying(self._guarded, texts, by=self._for_documents, seconds=seconds)

    async def _guarded(self, texts: Sequence[str], *, by: CircuitBreaker, seconds: float) -> Vectors:
        """The vectors, unless the endpoint has failed too often just now."""
        if by.opened:
            # Left alone for a few seconds. The reason is still the same, and so is what is reported.
            raise EndpointFailed(str(by.last_failure), passes=True, retry_after=max(0.0, by.open_remaining))
        vectors: Vectors = await by.call_async(self._ask, texts, seconds=seconds)
        return vectors

    async def _ask(self, texts: Sequence[str], *, seconds: float) -> Vectors:
        answer = await self._exchange.json(
            "POST",
            self._endpoint.path,
            body=self._endpoint.question([*map(encodable, texts), _PROBE], dimensions=self._dimensions),
            seconds=seconds,
            most_bytes=_VECTOR_BYTES * (len(texts) + 1),
        )
        try:
            rows = _numbers(self._endpoint.rows(answer))
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise self._unusable("something else than vectors of numbers") from error
        vectors = self._checked(rows, count=len(texts) + 1)
        self._compare(vectors[-1])
        return vectors[:-1]

    def _compare(self, probe: Vectors) -> None:
        if self._probe is None:
            self._probe = probe
        if float(probe @ self._probe) < _SAME_MODEL_COSINE:
            raise EndpointFailed(
                f"The embedding endpoint {self._endpoint.url} serves another model than before, and its vectors cannot "
                f"be compared with those of {self.model_id}; give it back that model, or change to the new one with "
                "a restart and `formulary reembed`."
            )

    def _checked(self, vectors: np.ndarray[Any, np.dtype[np.float64]], *, count: int) -> Vectors:
        if len(vectors) != count:
            raise self._unusable(f"{len(vectors)} vectors for {count} texts")
        if vectors.shape[1] != VECTOR_DIMENSIONS:
            raise WrongDimensions(
                f"Vectors of {self._endpoint.url} have {vectors.shape[1]} dimensions, the catalog stores "
                f"{VECTOR_DIMENSIONS}; use a model of {VECTOR_DIMENSIONS}."
            )
        if not np.isfinite(vectors).all():
            raise self._unusable("numbers that are not finite")
        with np.errstate(over="ignore"):  # an infinite norm is refused as well
            norms = np.linalg.norm(vectors, axis=1)
        if (np.abs(norms - 1) > _NORM_TOLERANCE).any():
            raise self._unusable("vectors that are not of unit length")
        unit: Vectors = (vectors / norms[:, np.newaxis]).astype(np.float32)
        return unit

    def _unusable(self, problem: str) -> EndpointFailed:
        return EndpointFailed(f"The embedding endpoint {self._endpoint.url} gives {problem}.")


def _breaker() -> CircuitBreaker:
    return CircuitBreaker(
        failure_threshold=_FAILURES, recovery_timeout=_LEFT_ALONE_SECONDS, expected_exception=EndpointFailed
    )


def _numbers(rows: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Raises `TypeError` or `ValueError` for what is none: numpy would read numbers out of texts and booleans."""
    if any(type(value) not in (int, float) for row in rows for value in row):
        raise TypeError
    return np.array(rows, np.float64)


def _shortened(text: str, *, refusal: TextsRefused) -> str:
    """What is asked for if a text was refused: not all endpoints cut what is too long for their model by themselves.

    Raises the refusal if the text is short already.
    """
    if len(text) <= _CHARACTERS_TAKEN:
        raise refusal
    return text[:_CHARACTERS_TAKEN]


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next attempt: random, longer each time, never less than the endpoint asked for."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after if isinstance(error, EndpointFailed) else 0.0
    return asked + tenacity.wait_random_exponential(multiplier=0.5, max=8)(state)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread of its own, for as long as the process lives: only there can a deadline hold for all of
    an exchange, however slowly the bytes drip."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="remote embedding", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


def _close(exchange: Exchange) -> None:
    asyncio.run_coroutine_threadsafe(exchange.close(), _loop())
