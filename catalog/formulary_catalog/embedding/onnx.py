"""The embedder of the serving process: a fused fp32 export run by onnxruntime, one thread a call."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # it ships no types; `_run` is the typed boundary
from tokenizers import Tokenizer

from formulary_catalog.embedding.batching import Batcher, Tokens, Vectors, batches
from formulary_catalog.embedding.cache import MODEL_FILE, TOKENIZER_FILE
from formulary_catalog.embedding.model import DIMENSIONS
from formulary_catalog.errors import EmbedderUnavailable

INPUT, OUTPUT = "input_ids", "embedding"

# Two keep up with what one process can serve besides; more only take each other's cache (docs/embedding.md).
_QUERIES_AT_ONCE = 2


class OnnxEmbedder:
    """Unit vectors of 384 float32 from an intact export. Thread-safe.

    A text has the same vector, bit for bit, alone or in any batch: only texts of equally many tokens share a batch,
    so that nothing is padded, and the export keeps the rest of the arithmetic independent of the batch.
    """

    def __init__(self, directory: Path, *, model_id: str) -> None:
        """Load the export in `directory`; `EmbedderUnavailable` if onnxruntime or tokenizers cannot."""
        self.model_id = model_id
        try:
            session = _open_session(directory / MODEL_FILE)
            self._tokenizer = Tokenizer.from_file(str(directory / TOKENIZER_FILE))
        except Exception as error:  # both libraries raise types of their own, without a common base
            raise EmbedderUnavailable(
                f"The export of {model_id} in {directory} does not load ({type(error).__name__}); "
                f"delete it, so that it is made anew."
            ) from error
        # Nothing here refers to the embedder itself: its 100 MB shall be free as soon as nobody uses it.
        self._run = partial(_run, session, model_id=model_id)
        self._batcher = Batcher(self._run, at_once=_QUERIES_AT_ONCE)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (n, 384), read-only, in the order of the texts.

        Each text is cut at the model's limit (256 tokens), as the reference implementation does.
        Raises `EmbedderUnavailable` if the model fails.
        """
        tokens = [self._tokens(text) for text in texts]
        vectors = np.empty((len(tokens), DIMENSIONS), np.float32)
        for batch in batches(tokens):
            vectors[batch] = self._run([tokens[position] for position in batch])
        vectors.flags.writeable = False
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """The vector of shape (384,), read-only; threads that ask at once share runs of the model.

        Raises `EmbedderUnavailable` if the model fails.
        """
        vector: Vectors = self._batcher.vector(self._tokens(text)).copy()
        vector.flags.writeable = False
        return vector

    def _tokens(self, text: str) -> list[int]:
        # A surrogate pair becomes the character it means, a lone surrogate U+FFFD: the tokenizer takes neither.
        valid = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return self._tokenizer.encode(valid).ids


def _run(session: Any, rows: list[Tokens], *, model_id: str) -> Vectors:
    try:
        (vectors,) = session.run([OUTPUT], {INPUT: np.array(rows, np.int64)})
    except Exception as error:  # onnxruntime's types have no common base
        raise EmbedderUnavailable(f"The embedding model {model_id} failed ({type(error).__name__}).") from error
    result: Vectors = vectors
    return result


def _open_session(model: Path) -> Any:
    options = onnxruntime.SessionOptions()
    # More threads lose on busy cores: they wait for each other, spinning (measured, docs/embedding.md).
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # failures reach the caller as exceptions
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
