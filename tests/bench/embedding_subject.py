"""One embedder in a process of its own, told over its standard input what to do: what `bench_embedding.py` measures.

A line in is a JSON object with the name of a task and its arguments, a line out is the task's result.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from formulary_catalog.embedding.model import locate

Vectors = npt.NDArray[np.float32]
OURS, REFERENCE = "ours", "reference"


class Subject:
    """What can be measured of an embedder; times in seconds, memory in bytes."""

    def __init__(self, *, query: Callable[[str], Vectors], documents: Callable[[Sequence[str]], Vectors]) -> None:
        self._query = query
        self._documents = documents
        self._asked = count()

    def queries(self, texts: Sequence[str]) -> list[float]:
        """How long each query takes, one after another."""
        return [self._seconds_of(text) for text in texts]

    def documents(self, texts: Sequence[str]) -> float:
        """How long a bulk takes."""
        started = time.perf_counter()
        self._documents(texts)
        return time.perf_counter() - started

    def vectors(self, queries: Sequence[str], documents: Sequence[str], file: str) -> None:
        """Write the vectors of all of them to a file."""
        np.save(file, np.concatenate([[self._query(query) for query in queries], self._documents(documents)]))

    def callers(self, callers: int, seconds: float) -> dict[str, Any]:
        """How long each query takes, of so many threads that ask for new ones all the time, and what they cost."""
        times: list[float] = []
        processor, started = time.process_time(), time.perf_counter()

        def ask() -> None:
            while time.perf_counter() < started + seconds:
                times.append(self._seconds_of(_new_query(next(self._asked))))

        threads = [threading.Thread(target=ask) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {
            "times": times,
            "seconds": time.perf_counter() - started,
            "processor": time.process_time() - processor,
        }

    def memory(self) -> int:
        """The resident set."""
        return int(psutil.Process().memory_info().rss)

    def _seconds_of(self, query: str) -> float:
        started = time.perf_counter()
        self._query(query)
        return time.perf_counter() - started


def _new_query(number: int) -> str:
    """A query of 8 to 16 tokens, another one for each number."""
    words = ("payments", "memory", "probe", "rollout", "latency", "disk", "certificate", "quota", "image")
    chosen = [words[(number + step * step) % len(words)] for step in range(number % 9)]
    return " ".join(["OOMKilled critical", *chosen, str(number)])


def _ours() -> Subject:
    from formulary_catalog.embedding import load_embedder

    embedder = load_embedder()
    return Subject(query=embedder.embed_query, documents=embedder.embed_documents)


def _reference() -> Subject:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)  # with two it is no faster on two cores, and much slower as soon as anything else runs
    model = SentenceTransformer(str(locate("bundled").path), device="cpu", local_files_only=True)

    def embed(texts: str | Sequence[str]) -> Vectors:
        vectors: Vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return vectors

    return Subject(query=embed, documents=embed)


def _tasks() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main(kind: str) -> None:
    """Load, tell how long that took, then do what is asked until the input ends."""
    started = time.perf_counter()
    subject = _ours() if kind == OURS else _reference()
    subject.queries(["warm"])
    print(json.dumps(time.perf_counter() - started), flush=True)
    for task in _tasks():
        result = getattr(subject, task["task"])(**task["arguments"])
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
