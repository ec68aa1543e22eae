"""One embedder in a process of its own, which `bench_embedding.py` measures.

A line of standard input is a JSON object with the name of a task and its arguments, a line of output is its result.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from formulary_catalog.embedding.architecture import Architecture
from formulary_catalog.embedding.model import BASE, locate
from support.models import published_model

Vectors = npt.NDArray[np.float32]
OURS, FLOAT32, INT8 = "ours", "ours in float32", "ours in int8"
ONNXRUNTIME, REFERENCE = "onnxruntime", "sentence-transformers"
SUBJECTS = (OURS, FLOAT32, INT8, ONNXRUNTIME, REFERENCE)


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


def _ours(precision: str | None = None) -> Subject:
    from formulary_catalog.embedding.local import load_local

    embedder = load_local(locate(BASE), precision=precision)
    return Subject(query=embedder.embed_query, documents=embedder.embed_documents)


_WRITE_ONNX = """
import sys
from pathlib import Path
from formulary_catalog.embedding.model import locate
from formulary_catalog.embedding.reference import load_reference, write_onnx
write_onnx(load_reference(locate(sys.argv[1])), Path(sys.argv[2]))
"""


def _onnxruntime() -> Subject:
    """The published weights as torch exports them, run as they are: texts of a bulk padded to the longest of 8."""
    import onnxruntime  # type: ignore[import-untyped]  # it ships no types
    from tokenizers import Tokenizer

    model = published_model()
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.enable_truncation(Architecture.of(model).max_tokens)
    tokenizer.enable_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    two_threads = onnxruntime.SessionOptions()
    two_threads.intra_op_num_threads = 2
    with tempfile.TemporaryDirectory() as directory:
        file = f"{directory}/model.onnx"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _WRITE_ONNX, str(model), file], check=True, stdout=sys.stderr
        )
        session, bulk = (
            onnxruntime.InferenceSession(file, each, providers=["CPUExecutionProvider"])
            for each in (options, two_threads)
        )

    def documents(texts: Sequence[str]) -> Vectors:
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        vectors = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), 8):
            batch = order[start : start + 8]
            encoded = tokenizer.encode_batch([texts[position] for position in batch])
            ids, mask = (np.array([getattr(each, kind) for each in encoded]) for kind in ("ids", "attention_mask"))
            running = session if len(texts) == 1 else bulk
            (vectors[batch],) = running.run(None, {"input_ids": ids, "attention_mask": mask})
        return vectors

    return Subject(query=lambda text: documents([text])[0], documents=documents)


def _reference() -> Subject:
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(published_model()), device="cpu", local_files_only=True)

    def embed(texts: str | Sequence[str], *, threads: int) -> Vectors:
        torch.set_num_threads(threads)
        vectors: Vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return vectors

    # For a query two threads are no faster, and much slower as soon as anything else runs. A bulk gains, as ours does.
    return Subject(query=partial(embed, threads=1), documents=partial(embed, threads=2))


def _tasks() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main(kind: str) -> None:
    """Load, say how long that took, then do what is asked until the input ends."""
    started = time.perf_counter()
    match kind:
        case "ours":
            subject = _ours()
        case "ours in float32":
            subject = _ours("f32")
        case "ours in int8":
            subject = _ours("i8")
        case "onnxruntime":
            subject = _onnxruntime()
        case _:
            subject = _reference()
    subject.queries(["warm"])
    print(json.dumps(time.perf_counter() - started), flush=True)
    for task in _tasks():
        result = getattr(subject, task["task"])(**task["arguments"])
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
