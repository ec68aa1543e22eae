"""The embedder of the serving process: the model's export, run by OpenVINO on one thread."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino  # type: ignore[import-untyped]  # it ships no types; `_run` is the typed boundary
from tokenizers import Tokenizer

from formulary_catalog.embedding.batching import TEXTS, Batcher, Tokens, Vectors, batches, padded
from formulary_catalog.embedding.cache import MODEL_FILE, TOKENIZER_FILE
from formulary_catalog.embedding.model import DIMENSIONS
from formulary_catalog.errors import EmbedderUnavailable

INPUT, MASK, OUTPUT = "input_ids", "attention_mask", "embedding"

# Texts of both widths that most queries have: the first run of each shape takes longer than the others.
_SHORT, _USUAL = range(1, 9), range(1, 25)


class LocalEmbedder:
    """Unit vectors of 384 float32 from an intact export. Thread-safe.

    A text has the same vector, bit for bit, alone or in any batch: how far it is filled up depends on its own length,
    and what stands in other rows of a batch takes no part in its arithmetic. Where the processor rounds in another way
    for more rows, texts run one by one.
    """

    def __init__(self, directory: Path, *, model_id: str) -> None:
        """Load the export in `directory`; `EmbedderUnavailable` if OpenVINO or tokenizers cannot."""
        self.model_id = model_id
        try:
            request = _compiled(directory / MODEL_FILE)
            self._tokenizer = Tokenizer.from_file(str(directory / TOKENIZER_FILE))
        except Exception as error:  # both libraries raise types of their own, without a common base
            raise EmbedderUnavailable(
                f"The export of {model_id} in {directory} does not load ({type(error).__name__}); "
                f"delete it, so that it is made anew."
            ) from error
        # Nothing here refers to the embedder itself: its 100 MB shall be free as soon as nobody uses it.
        run = partial(_run, request, model_id=model_id)
        self._together = TEXTS if _same_together(run) else 1
        self._batcher = Batcher(run, most=self._together)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (n, 384), read-only, in the order of the texts.

        Each text is cut at the model's limit (256 tokens), as the reference implementation does. Queries that are
        asked meanwhile take turns with the batches. Raises `EmbedderUnavailable` if the model fails.
        """
        tokens = [self._tokens(text) for text in texts]
        vectors = np.empty((len(tokens), DIMENSIONS), np.float32)
        for batch in batches(tokens, most=self._together):
            vectors[batch] = self._batcher.vectors([tokens[position] for position in batch])
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


def _run(request: Any, texts: Sequence[Tokens], *, model_id: str) -> Vectors:
    ids, mask = padded(texts)
    try:
        vectors: Vectors = request.infer({INPUT: ids, MASK: mask})[OUTPUT]
    except Exception as error:  # OpenVINO's types have no common base
        raise EmbedderUnavailable(f"The embedding model {model_id} failed ({type(error).__name__}).") from error
    return vectors[: len(texts)]


def _same_together(run: Callable[[Sequence[Tokens]], Vectors]) -> bool:
    """Whether a text has the vector in the largest batch that it has alone: the kernels go by the number of rows.

    Those of processors with AVX-512 do not mind how many there are, those of others do from some 100 rows on.
    """
    return all((run([tokens] * TEXTS) == run([tokens])).all() for tokens in (_SHORT, _USUAL))


def _compiled(model: Path) -> Any:
    # More threads lose on busy cores: they wait for each other (measured, docs/embedding.md).
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    return openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
