"""The embedder that runs the model in this process with OpenVINO. `load_embedder` makes it.

It is the default backend: a query takes 1 to 3 ms, and a process needs neither torch nor a network (DESIGN section 1).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino  # type: ignore[import-untyped]  # it ships no types; `_run` is the typed boundary
import structlog
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Normalizers

from formulary_catalog.embedding import graph
from formulary_catalog.embedding.architecture import Architecture, UnsupportedArchitecture
from formulary_catalog.embedding.batching import Batcher, Ids, Run, Shapes, Tokens, Vectors
from formulary_catalog.embedding.cache import MODEL_FILE, TOKENIZER_FILE, CachedExport
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS, ModelSource, encodable
from formulary_catalog.embedding.weights import Weights
from formulary_catalog.errors import EmbedderUnavailable

BFLOAT16, FLOAT32, INT8 = "bf16", "f32", "i8"
RUNS = 2
"""Default number of runs of the model that compute at the same time, each on one thread."""

# Arithmetic in bfloat16 works on tiles of 16 rows, where padding is free. In float32 padding takes time, and so does
# each change of the shape (0.7 ms): steps of 1, 2 and 4 were measured, and are slower than 8.
_STEPS = {BFLOAT16: 16, FLOAT32: 8, INT8: 8}

ROUNDING = 1e-6
"""A text's vector may differ by so much, in a component, between a batch and a run of its own."""

_LEAST_COSINE = 0.99
"""Of int8 to float32. Rounding leaves .998; a processor without the instructions returns something else altogether."""
_COMPARED = ("OOMKilled critical", "the rollout is stuck as its image cannot be pulled", "x509: certificate expired")
_PROCESSORS = Path("/proc/cpuinfo")
INT8_FLAGS = {"avx512_vnni", "avx_vnni"}
"""Of a processor that multiplies int8 and adds in one instruction, by Linux' names."""

_log = structlog.get_logger(__name__)

# One for the process, kept until its end. Each core loads the CPU plugin by itself, and the plugin sets the signal
# stack of the loading thread. Unloaded by another thread, or not last in first out, it frees a stack that is still set:
# the next signal ends the process with a segmentation fault that no fault handler can report.
_CORE = openvino.Core()


@dataclass(frozen=True)
class Network:
    """A graph, what makes its first input out of ids of shape (texts, tokens), and the tokenizer."""

    model: Any
    inputs: Callable[[Ids], dict[str, Any]]
    tokenizer: Tokenizer

    @classmethod
    def built(cls, source: ModelSource, architecture: Architecture, *, quantized: bool = False) -> "Network":
        """The network of a model of the BERT family, from its weights; `quantized` with these in int8."""
        weights = Weights(*source.weight_files)
        table = weights[graph.WORD_TABLE]
        return cls(
            model=graph.build(architecture, weights, quantized=quantized),
            inputs=lambda ids: {graph.EMBEDDINGS: table[ids].astype(np.float32, copy=False)},
            tokenizer=_tokenizer(source.path, architecture),
        )

    @classmethod
    def exported(cls, directory: Path) -> "Network":
        """The network in the directory of an export."""
        return cls(
            model=_CORE.read_model(directory / MODEL_FILE),
            inputs=lambda ids: {graph.IDS: ids},
            tokenizer=Tokenizer.from_file(str(directory / TOKENIZER_FILE)),
        )


class LocalEmbedder:
    """Unit vectors of 384 float32 from a model on disk. Thread-safe.

    How far a text is padded depends on its own length, and the other rows of a batch take no part in its arithmetic. So
    a text has the same vector alone and in any batch: to the last bit with AVX-512 or AMX, within `ROUNDING` with AVX2.
    Where a batch is rounded more differently, texts run one by one.
    """

    def __init__(self, network: Network, *, model_id: str, runs: int = RUNS, precision: str | None = None) -> None:
        """Compile the network, by default for bfloat16 where the processor has it. `precision`: `f32`, `bf16`, or `i8`
        for a quantized network.

        Raises what OpenVINO raises.
        """
        self.model_id = model_id
        self._tokenizer = network.tokenizer
        self._runs = min(runs, _processors())
        precision = precision or _float_precision()
        compiled = _compiled(network.model, threads=self._runs, precision=precision)
        # Nothing here refers to the embedder itself: its memory is freed with its last reference.
        idle = [
            partial(_run, compiled.create_infer_request(), network.inputs, model_id=model_id) for _ in range(self._runs)
        ]
        step = _STEPS[precision]
        self._shapes = Shapes(step=step) if _same_in_a_batch(idle, step=step) else Shapes(step=step, most=1)
        self._batcher = Batcher(idle, shapes=self._shapes)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (n, 384), read-only, in the order of the texts.

        Each text is cut at the model's limit (256 tokens for the bundled one), as the reference implementation does.
        Waiting queries and batches take turns. Raises `EmbedderUnavailable` if the model fails.
        """
        tokens = [self._tokens(text) for text in texts]
        vectors = np.empty((len(tokens), VECTOR_DIMENSIONS), np.float32)

        def embed(batch: Sequence[int]) -> None:
            vectors[batch] = self._batcher.vectors([tokens[position] for position in batch])

        with ThreadPoolExecutor(self._runs) as threads:
            list(threads.map(embed, self._shapes.batches(tokens)))  # the list raises what a batch raised
        vectors.flags.writeable = False
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """The vector of shape (384,), read-only; threads that ask at once share runs of the model.

        Raises `EmbedderUnavailable` if the model fails.
        """
        vector: Vectors = self._batcher.vector(self._tokens(text)).copy()
        vector.flags.writeable = False
        return vector

    def _tokens(self, text: str) -> Tokens:
        tokens: Tokens = self._tokenizer.encode(encodable(text)).ids
        return tokens


def load_local(
    source: ModelSource, *, cache_dir: Path | None = None, runs: int = RUNS, precision: str | None = None
) -> LocalEmbedder:
    """The embedder for a model on disk: built from its weights, or from its export in `cache_dir` (see `CachedExport`).

    `precision` (`f32`, `bf16`, `i8`) replaces what suits the processor. Integers are only used where the vectors agree
    with those of float32.

    Raises `EmbedderUnavailable` if the model does not load, or needs an export that is not there.
    """
    embedder = partial(LocalEmbedder, model_id=source.id, runs=runs)
    try:
        try:
            architecture = Architecture.of(source.path)
        except UnsupportedArchitecture as reason:
            network = Network.exported(_export(source, cache_dir=cache_dir, reason=reason))
            return embedder(network, precision=precision)
        network = Network.built(source, architecture)
        if (precision or usual_precision()) != INT8:
            return embedder(network, precision=precision)
        exact = embedder(network, precision=FLOAT32)
        try:
            rounded = embedder(Network.built(source, architecture, quantized=True), precision=INT8)
            if _agree(rounded, exact):
                return rounded
            why = "its vectors differ"
        except Exception as error:  # as below
            why = type(error).__name__
        _log.warning("embedding_int8_refused", model=source.id, reason=why, using=FLOAT32)
        return exact
    except EmbedderUnavailable:
        raise
    except Exception as error:  # OpenVINO and tokenizers raise types of their own, without a common base
        raise EmbedderUnavailable(
            f"The embedding model {source.id} does not load ({type(error).__name__}); restore or replace it."
        ) from error


def _export(source: ModelSource, *, cache_dir: Path | None, reason: UnsupportedArchitecture) -> Path:
    export = CachedExport.of(source, cache_dir=cache_dir)
    if (defect := export.defect()) is None:
        return export.directory
    raise EmbedderUnavailable(
        f"The embedding model {source.name} is not served from its weights, as {reason}, and its export in "
        f"{export.directory} cannot be used: {defect}. Install formulary[sentence-transformers], then run "
        f"`python -m formulary_catalog.embedding.export --model {source.path}` or set "
        "FORMULARY_EMBEDDING_BACKEND=sentence-transformers."
    )


def _tokenizer(directory: Path, architecture: Architecture) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(architecture.max_tokens)
    if architecture.lowercase:
        own = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
        tokenizer.normalizer = Normalizers([Lowercase(), *own])
    return tokenizer


def _compiled(model: Any, *, threads: int, precision: str) -> Any:
    # More threads for one run lose on busy cores: they wait for each other (measured, docs/adr/0006). So does a run
    # that is bound to a core which another process uses.
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": threads,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": FLOAT32 if precision == INT8 else precision,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": graph.INT8_GROUP if precision == INT8 else 0,
    }
    return _CORE.compile_model(model, "CPU", settings)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_precision() -> str:
    """What is fastest on this processor; int8 gains nothing over bfloat16."""
    precision = _float_precision()
    return INT8 if precision == FLOAT32 and INT8_FLAGS & processor_flags() else precision


def _float_precision() -> str:
    """Bfloat16 where the processor computes in it. Float16, usual on others, was not compared with the reference."""
    usual = _CORE.get_property("CPU", "INFERENCE_PRECISION_HINT")
    return BFLOAT16 if usual == openvino.Type.bf16 else FLOAT32


def processor_flags() -> frozenset[str]:
    """What Linux says of the first processor; nothing elsewhere."""
    try:
        lines = _PROCESSORS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def _agree(rounded: LocalEmbedder, exact: LocalEmbedder) -> bool:
    """Whether int8 gives the vectors of float32, but for the rounding. Without the instructions it fails silently."""
    # As queries: a process that is about to end starts no threads any more for documents.
    return all(float(rounded.embed_query(text) @ exact.embed_query(text)) >= _LEAST_COSINE for text in _COMPARED)


def _run(request: Any, inputs: Callable[[Ids], dict[str, Any]], ids: Ids, mask: Ids, *, model_id: str) -> Vectors:
    try:
        vectors: Vectors = request.infer({**inputs(ids), graph.MASK: mask})[graph.VECTORS]
    except Exception as error:  # OpenVINO's types have no common base
        raise EmbedderUnavailable(f"The embedding model {model_id} failed ({type(error).__name__}).") from error
    return vectors


def _same_in_a_batch(runs: Sequence[Run], *, step: int) -> bool:
    """Whether a text has, within `ROUNDING`, the vector in the largest batch that it has alone.

    Some processors choose other kernels for more rows. Also makes the kernels of usual queries.
    """
    shapes = Shapes(step=step)
    for run in runs:
        for length in (8, 16, 32):
            tokens = range(1, length + 1)
            alone = run(*shapes.padded([tokens]))
            batch = run(*shapes.padded([tokens] * shapes.batch_size(shapes.width(length))))
            if np.abs(batch - alone).max() > ROUNDING:
                return False
    return True
