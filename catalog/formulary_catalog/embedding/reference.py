"""Models as sentence-transformers runs them: the second backend, and what an export is made of.

`load_embedder` serves with it where `FORMULARY_EMBEDDING_BACKEND=sentence-transformers` is set, for encoders that
`graph` does not build; `export` turns such a model into a file that OpenVINO runs. Needs the extra
`sentence-transformers`, and is imported only then: torch costs seconds and hundreds of megabytes.
"""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import openvino  # type: ignore[import-untyped]  # it ships no types
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from formulary_catalog.embedding.batching import TEXTS, Vectors
from formulary_catalog.embedding.graph import IDS, MASK, VECTORS
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS, ModelSource, encodable
from formulary_catalog.errors import EmbedderUnavailable

_OPSET = 17


class ReferenceEmbedder:
    """Unit vectors of 384 float32, computed by sentence-transformers on one thread of the processor. Thread-safe.

    In a batch, a text's vector may differ in its last bits from the one that it has alone.
    """

    def __init__(self, source: ModelSource) -> None:
        """Load the model, which takes seconds. Raises `EmbedderUnavailable` if that fails."""
        self.model_id = source.id
        torch.set_num_threads(1)  # two threads lose on busy cores (docs/adr/0006)
        try:
            self._model = load_reference(source)
        except Exception as error:  # torch and transformers raise types of their own, without a common base
            raise EmbedderUnavailable(
                f"sentence-transformers does not load the embedding model {source.id} ({type(error).__name__}); "
                "restore or replace it."
            ) from error
        self._lock = Lock()  # tokenizers refuse to be set up by two threads at once

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (n, 384), read-only, in the order of the texts.

        Raises `EmbedderUnavailable` if the model fails.
        """
        vectors = np.empty((len(texts), VECTOR_DIMENSIONS), np.float32)
        for start in range(0, len(texts), TEXTS):
            batch = [encodable(text) for text in texts[start : start + TEXTS]]
            vectors[start : start + len(batch)] = self._encoded(batch)
        vectors.flags.writeable = False
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """The vector of shape (384,), read-only. Raises `EmbedderUnavailable` if the model fails."""
        vector: Vectors = self.embed_documents([text])[0]
        return vector

    def _encoded(self, batch: list[str]) -> Vectors:
        try:
            with self._lock:  # for one batch: queries do not wait for a bulk to end
                vectors: Vectors = self._model.encode(batch, normalize_embeddings=True, show_progress_bar=False)
        except Exception as error:  # torch and transformers raise types of their own, without a common base
            raise EmbedderUnavailable(
                f"The embedding model {self.model_id} failed ({type(error).__name__})."
            ) from error
        return vectors


class Encoder(torch.nn.Module):
    """Transformer, pooling and normalisation in one call: ids and mask (texts, tokens) int64 to (texts, 384) float32.

    The mask is 1 for a token, 0 for padding.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.transformer, *head = model
        self.head = torch.nn.ModuleList(head)
        self.has_token_types = "token_type_ids" in model.tokenizer.model_input_names

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self.has_token_types:
            features["token_type_ids"] = torch.zeros_like(input_ids)
        features = self.transformer(features)
        for module in self.head:
            features = module(features)
        return torch.nn.functional.normalize(features["sentence_embedding"], dim=1)


def load_reference(source: ModelSource) -> SentenceTransformer:
    """The model as sentence-transformers runs it in float32, from disk alone."""
    # With eager attention the exported graph runs in the least memory.
    model = SentenceTransformer(
        str(source.path),
        device="cpu",
        local_files_only=True,
        model_kwargs={"attn_implementation": "eager", "dtype": torch.float32},
    )
    model.default_prompt_name = None  # prompts are not added, by no backend
    if source.adapted:
        encoder = model[0].auto_model
        assert isinstance(encoder, torch.nn.Module)
        encoder.load_state_dict(load_file(source.adapted), strict=False)
    return model


def write_graph(model: SentenceTransformer, file: Path) -> None:
    """Write the graph to `file` (.xml), and its weights in half precision next to it (.bin)."""
    plain = file.with_suffix(".onnx")
    write_onnx(model, plain)
    openvino.save_model(openvino.Core().read_model(plain), file, compress_to_fp16=True)
    plain.unlink()


def write_onnx(model: SentenceTransformer, file: Path) -> None:
    """Write the graph in float32, as every runtime for ONNX reads it."""
    example = torch.tensor([[101, 2000, 102], [101, 2001, 102]])
    torch.onnx.export(
        Encoder(model).eval(),
        (example, torch.ones_like(example)),
        str(file),
        input_names=[IDS, MASK],
        output_names=[VECTORS],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (IDS, MASK)} | {VECTORS: {0: "texts"}},
        opset_version=_OPSET,
        dynamo=False,
    )


def write_tokenizer(model: SentenceTransformer, file: Path) -> None:
    """Write the model's tokenizer, set to cut where the reference cuts and never to pad."""
    tokenizer = model.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_seq_length)
    tokenizer.save(str(file))
