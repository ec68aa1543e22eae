"""The vectors: equal to the reference implementation's, the same every time, finite for any text."""

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulary_catalog.embedding import Embedder, graph, load_embedder, local
from formulary_catalog.embedding.batching import Vectors
from formulary_catalog.embedding.local import load_local
from formulary_catalog.embedding.model import BASE, locate
from support.models import published_model

TEXTS = (
    "OOMKilled critical",
    "OOMKilled high payments",
    "CrashLoopBackOff high",
    "ImagePullBackOff medium registry credentials expired",
    "Evicted low disk pressure",
    "NodeNotReady critical",
    "FailedScheduling: 0/3 nodes are available: insufficient memory",
    "BackoffLimitExceeded nightly report job",
    "DeadlineExceeded migration",
    "FailedMount: volume already attached to another node",
    "what fixes a pod that is killed for using too much memory?",
    "Increase the memory limit of a deployment whose containers are killed for exceeding it",
    "Restart the pods of a deployment one after another",
    "Roll a deployment back to the revision before the last",
    "Cordon and drain a node, then replace the machine under it",
    "Scale out horizontally while CPU stays above its target",
    "kubectl -n prod rollout undo deploy/api --to-revision=3",
    "java.lang.OutOfMemoryError: Java heap space\n\tat com.acme.Cart.add(Cart.java:42)",
    '{"kind": "Pod", "status": {"reason": "Evicted"}}',
    "UPPER CASE and lower case",
    "upper case AND LOWER CASE",
    "payments-api-7c9f8d6b5-x2x4z",
    "https://example.com/runbooks/oom?env=prod#fix",
    "a",
    "1",
    "!!! ??? ...",
    "",
    " ",
    "\t\r\n",
    "nul \0 inside",
    "zero\u200bwidth\u200djoiner\ufeff",
    "naïve café ÅNGSTRÖM Größe",
    "e\u0301 is e with an accent",
    "メモリ不足でコンテナが停止しました",
    "磁盘压力导致驱逐",
    "الحاوية توقفت بسبب نفاد الذاكرة",
    "контейнер убит из-за нехватки памяти",
    "🚑🔥 pod on fire 👩\u200d🚒",
    "\U0010ffff\ue000\ufffd",
    "[CLS] [SEP] [MASK] [PAD] [UNK]",
    "x" * 4000,
    "the rollout is stuck because the image cannot be pulled " * 75,
    "word " * 255,
)

_WORDS = (
    "pod node disk memory image secret probe volume quota taint OOMKilled evicted rollout x509 503 Größe 磁盘".split()
)
MANY = TEXTS + tuple(
    f"{number}: {' '.join(islice(cycle(_WORDS[number % 7 :] + _WORDS), number * 260 // 457))}" for number in range(307)
)
"""350 texts, of a few tokens up to more than the model takes, which some fifty of them are."""
FEW = TEXTS[::3] + MANY[60::50]
"""Of every kind and length."""

_REFERENCE = """
import json, sys
import numpy as np
from sentence_transformers import SentenceTransformer

model, texts, result = sys.argv[1:]
encoder = SentenceTransformer(model, device="cpu", local_files_only=True)
np.save(result, encoder.encode(json.loads(open(texts).read()), normalize_embeddings=True))
"""

_SIGNALLED = """
import signal
from concurrent.futures import ThreadPoolExecutor

from formulary_catalog.embedding import load_embedder

signal.signal(signal.SIGTERM, lambda *_: print("handled"))
embedders = [load_embedder(), load_embedder()]
{release}
signal.raise_signal(signal.SIGTERM)
"""
_RELEASES = {
    "first made, first released": "embedders.pop(0); embedders.pop()",
    "released by another thread": "ThreadPoolExecutor().submit(embedders.clear).result()",
}


_MULTIPLIES_INT8 = bool(local.INT8_FLAGS & local.processor_flags())
_LEAST_COSINES = {None: 0.9999 if local.usual_precision() != "i8" else 0.997, "f32": 0.999998, "i8": 0.997}
"""To the reference, by precision; None is the usual one of this processor."""


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return load_embedder()


@pytest.fixture(scope="module", params=_LEAST_COSINES, ids=["usual precision", "float32", "int8"])
def precise(request: pytest.FixtureRequest) -> tuple[Embedder, float]:
    """The base in one of the precisions, and the least cosine to the reference that it must reach."""
    return load_local(locate(BASE), precision=request.param), _LEAST_COSINES[request.param]


@pytest.fixture(scope="module", params=[FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
def compared(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The texts that are compared with the reference."""
    texts: tuple[str, ...] = request.param
    return texts


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, compared: tuple[str, ...]) -> npt.NDArray[np.float32]:
    directory = tmp_path_factory.mktemp("reference")
    texts, result = directory / "texts.json", directory / "vectors.npy"
    texts.write_text(json.dumps(compared))
    command = [sys.executable, "-c", _REFERENCE, str(published_model()), str(texts), str(result)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, child.stderr
    vectors: npt.NDArray[np.float32] = np.load(result)
    return vectors


def test_documents_of_any_length_equal_the_reference_with_the_published_weights(
    precise: tuple[Embedder, float], compared: tuple[str, ...], reference: npt.NDArray[np.float32]
) -> None:
    embedder, least = precise
    assert len(compared) == len(reference)
    cosines = np.sum(embedder.embed_documents(compared).astype(np.float64) * reference, axis=1)
    assert cosines.min() >= least, compared[int(cosines.argmin())]


def test_queries_of_any_length_equal_the_reference_with_the_published_weights(
    precise: tuple[Embedder, float], compared: tuple[str, ...], reference: npt.NDArray[np.float32]
) -> None:
    embedder, least = precise
    vectors = np.stack([embedder.embed_query(text) for text in compared]).astype(np.float64)
    cosines = np.sum(vectors * reference, axis=1)
    assert cosines.min() >= least, compared[int(cosines.argmin())]


def assert_same(actual: Vectors, expected: Vectors) -> None:
    """Some processors round a text differently in a batch."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=local.ROUNDING)


@pytest.mark.smoke
def test_vectors_are_float32_of_the_promised_shape(embedder: Embedder) -> None:
    documents = embedder.embed_documents(TEXTS[:3])
    assert (documents.shape, documents.dtype) == ((3, 384), np.dtype(np.float32))
    query = embedder.embed_query(TEXTS[0])
    assert (query.shape, query.dtype) == ((384,), np.dtype(np.float32))


def test_no_documents_give_an_empty_matrix(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, 384)


def test_a_text_has_the_same_vector_alone_and_in_any_batch(precise: tuple[Embedder, float]) -> None:
    embedder, _ = precise
    alone = np.stack([embedder.embed_documents([text])[0] for text in TEXTS])
    together = embedder.embed_documents(TEXTS)
    crowded = embedder.embed_documents([*reversed(TEXTS), *TEXTS, *TEXTS])
    assert_same(together, alone)
    assert_same(crowded[: len(TEXTS)][::-1], alone)
    assert_same(crowded[len(TEXTS) :], np.concatenate([alone, alone]))


def test_a_query_and_a_document_of_the_same_text_are_the_same_vector(embedder: Embedder) -> None:
    assert_same(np.stack([embedder.embed_query(text) for text in TEXTS]), embedder.embed_documents(TEXTS))


@pytest.mark.smoke
def test_meaning_decides_which_document_is_nearest(embedder: Embedder) -> None:
    documents = embedder.embed_documents(
        ["Increase the memory limit of a container", "Renew an expired TLS certificate", "Drain a broken node"]
    )
    queries = ["the pod runs out of memory", "x509: certificate has expired", "NodeNotReady"]
    assert [int((documents @ embedder.embed_query(query)).argmax()) for query in queries] == [0, 1, 2]


@pytest.mark.parametrize(
    "embed",
    [lambda embedder: embedder.embed_query("shared"), lambda embedder: embedder.embed_documents(["shared"])],
    ids=["query", "documents"],
)
def test_returned_vectors_are_read_only(
    embedder: Embedder, embed: Callable[[Embedder], npt.NDArray[np.float32]]
) -> None:
    with pytest.raises(ValueError, match="read-only"):
        embed(embedder)[...] = 0


def test_threads_share_the_embedder(embedder: Embedder) -> None:
    alone = embedder.embed_documents(TEXTS)
    with ThreadPoolExecutor(max_workers=4) as pool:
        queries = pool.map(embedder.embed_query, [f"{text} " for text in TEXTS] * 2)
        documents = pool.map(lambda _: embedder.embed_documents(TEXTS[:10]), range(4))
    for vectors in documents:
        assert_same(vectors, alone[:10])
    assert all(abs(np.linalg.norm(vector) - 1) < 1e-5 for vector in queries)


def test_queries_asked_at_once_have_the_vectors_they_have_alone(embedder: Embedder) -> None:
    queries = [f"{reason} in shop number {number}" for reason in ("OOMKilled", "evicted") for number in range(40)]
    with ThreadPoolExecutor(max_workers=32) as pool:
        together = list(pool.map(embedder.embed_query, queries))
    alone = np.stack([embedder.embed_documents([query])[0] for query in queries])
    assert_same(np.stack(together), alone)


def test_a_surrogate_pair_is_the_character_it_means(embedder: Embedder) -> None:
    np.testing.assert_array_equal(embedder.embed_query("on fire \ud83d\udd25"), embedder.embed_query("on fire 🔥"))


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=300), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
@pytest.mark.smoke
def test_any_text_has_a_finite_unit_vector(embedder: Embedder, texts: list[str]) -> None:
    vectors = embedder.embed_documents(texts)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_the_embedder_says_which_model_it_is(embedder: Embedder) -> None:
    assert embedder.model_id == locate("bundled").id


def test_what_lies_beyond_256_tokens_is_cut_off(embedder: Embedder) -> None:
    limit = "word " * 254  # and the two marks that frame every text: 256
    np.testing.assert_array_equal(embedder.embed_query(limit + "ignored"), embedder.embed_query(limit + "as well"))
    assert (embedder.embed_query(limit) != embedder.embed_query("word " * 253)).any()


def test_an_embedder_that_nobody_uses_any_more_gives_its_memory_back_at_once() -> None:
    embedder = load_embedder()
    embedder.embed_query("the last one")
    remains = weakref.ref(embedder)
    del embedder
    assert remains() is None


@pytest.mark.parametrize("release", _RELEASES.values(), ids=_RELEASES)
def test_a_signal_is_handled_after_embedders_were_released(release: str) -> None:
    """OpenVINO's CPU plugin sets the signal stack of the thread that loads it, and frees it when it is unloaded."""
    command = [sys.executable, "-c", _SIGNALLED.format(release=release)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (child.returncode, child.stdout) == (0, "handled\n"), child.stderr


def test_nothing_is_gathered_for_anybody(tmp_path: Path) -> None:
    """OpenVINO comes with a package that keeps an id in the home directory and reports to its maker, if it can."""
    code = """
from formulary_catalog.embedding import load_embedder
load_embedder().embed_query("pod was OOMKilled")
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)

    assert list(tmp_path.rglob("*")) == []


def test_a_text_has_the_same_vector_in_every_shape_of_batch(embedder: Embedder) -> None:
    words = "pod node disk memory image secret probe volume quota taint".split()
    texts = {length: " ".join(islice(cycle(words), length)) for length in range(4, 254, 16)}
    for text in texts.values():
        alone = embedder.embed_query(text)
        for number in (2, 3, 4, 8, 9):
            assert_same(embedder.embed_documents([text] * number), np.tile(alone, (number, 1)))


@pytest.mark.skipif(not _MULTIPLIES_INT8, reason="this processor has no instructions for int8")
def test_a_model_in_int8_is_another_one_than_in_float32() -> None:
    """Else all other tests of int8 would be of float32, which is used where int8 fails."""
    exact, rounded = (load_local(locate(BASE), precision=precision) for precision in ("f32", "i8"))
    assert np.abs(rounded.embed_query(TEXTS[0]) - exact.embed_query(TEXTS[0])).max() > 10 * local.ROUNDING


@pytest.mark.parametrize("returned", [0.0, np.nan, -1.0], ids=["nothing", "no numbers", "the opposite"])
def test_float32_serves_where_int8_fails_without_an_error(monkeypatch: pytest.MonkeyPatch, returned: float) -> None:
    """A mock for a processor that this machine is not: without the instructions, OpenVINO returns empty vectors."""
    exact = load_local(locate(BASE), precision="f32").embed_documents(TEXTS[:5])
    monkeypatch.setattr(graph, "_int8", lambda matrix: graph._constant(np.full_like(matrix, returned)))

    np.testing.assert_array_equal(load_local(locate(BASE), precision="i8").embed_documents(TEXTS[:5]), exact)


@pytest.mark.parametrize(
    ("flags", "expected"), [("fma avx2", "f32"), ("fma avx2 avx_vnni", "i8"), ("avx512f avx512_vnni", "i8")]
)
def test_int8_is_usual_on_processors_that_multiply_it_and_have_no_bfloat16(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str, expected: str
) -> None:
    """A mock for processors that this machine is not."""
    processors = tmp_path / "cpuinfo"
    processors.write_text(f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\n")
    monkeypatch.setattr(local, "_PROCESSORS", processors)
    monkeypatch.setattr(local, "_float_precision", lambda: "f32")

    assert local.usual_precision() == expected


def test_texts_run_one_by_one_where_a_batch_is_rounded_much_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mock for a processor that this machine is not."""
    exact = local._run

    def rounding(*arguments: Any, model_id: str) -> Vectors:
        vectors = exact(*arguments, model_id=model_id)
        return vectors + np.float32(1e-5) if len(vectors) > 1 else vectors

    monkeypatch.setattr(local, "_run", rounding)
    embedder = load_embedder()
    queries = [f"disk pressure on node {number}" for number in range(40)]
    alone = np.stack([embedder.embed_query(query) for query in queries])

    assert_same(embedder.embed_documents(queries), alone)
    with ThreadPoolExecutor(max_workers=16) as pool:
        assert_same(np.stack(list(pool.map(embedder.embed_query, queries))), alone)
