"""A sentence-transformers model as one onnx graph: token ids in, unit vectors out. Needs the `export` extra."""

from pathlib import Path

import torch
from onnxruntime.transformers.optimizer import optimize_model  # type: ignore[import-untyped]  # it ships no types
from sentence_transformers import SentenceTransformer

from formulary_catalog.embedding.model import DIMENSIONS
from formulary_catalog.embedding.onnx import INPUT, OUTPUT

_OPSET = 17


class Encoder(torch.nn.Module):
    """Transformer, pooling and normalisation in one call: (texts, tokens) int64 to (texts, 384) float32.

    There is no mask among the inputs, because serving never pads.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.transformer, *head = model
        self.head = torch.nn.ModuleList(head)
        self.has_token_types = "token_type_ids" in model.tokenizer.model_input_names

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        features = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
        if self.has_token_types:
            features["token_type_ids"] = torch.zeros_like(input_ids)
        features = _with_one_row_more(self.transformer(features))
        for module in self.head:
            features = module(features)
        return torch.nn.functional.normalize(features["sentence_embedding"], dim=1)[:-1]


def load_reference(path: Path) -> SentenceTransformer:
    """The model as sentence-transformers runs it, from disk alone."""
    # Eager attention is the form that the optimizer knows how to fuse.
    return SentenceTransformer(
        str(path), device="cpu", local_files_only=True, model_kwargs={"attn_implementation": "eager"}
    )


def write_graph(model: SentenceTransformer, file: Path, *, heads: int) -> None:
    """Write the fused fp32 graph of a model with that many attention heads."""
    plain = file.with_suffix(".plain")
    torch.onnx.export(
        Encoder(model).eval(),
        (torch.tensor([[101, 2000, 102], [101, 2001, 102]]),),
        str(plain),
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_axes={INPUT: {0: "texts", 1: "tokens"}, OUTPUT: {0: "texts"}},
        opset_version=_OPSET,
        dynamo=False,
    )
    fused = optimize_model(str(plain), model_type="bert", num_heads=heads, hidden_size=DIMENSIONS, opt_level=0)
    fused.save_model_to_file(str(file))
    plain.unlink()


def write_tokenizer(model: SentenceTransformer, file: Path) -> None:
    """Write the model's tokenizer, set to cut where the reference cuts and never to pad."""
    tokenizer = model.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_seq_length)
    tokenizer.save(str(file))


def _with_one_row_more(features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    # A sum over a batch of one runs in another order than over several. There is never just one this way, so that a
    # text has the same vector to the last bit, alone or among others.
    return {name: torch.cat([features[name], features[name][:1]]) for name in ("token_embeddings", "attention_mask")}
