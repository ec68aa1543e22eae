"""A sentence-transformers model as one graph: token ids in, unit vectors out. Needs the `export` extra."""

from pathlib import Path

import openvino  # type: ignore[import-untyped]  # it ships no types
import torch
from sentence_transformers import SentenceTransformer

from formulary_catalog.embedding.local import INPUT, MASK, OUTPUT

_OPSET = 17


class Encoder(torch.nn.Module):
    """Transformer, pooling and normalisation in one call: ids and mask (texts, tokens) int64 to (texts, 384) float32.

    The mask is 1 where a text has a token, 0 where it was only filled up.
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


def load_reference(path: Path) -> SentenceTransformer:
    """The model as sentence-transformers runs it, from disk alone."""
    # With eager attention the exported graph runs in the least memory.
    return SentenceTransformer(
        str(path), device="cpu", local_files_only=True, model_kwargs={"attn_implementation": "eager"}
    )


def write_graph(model: SentenceTransformer, file: Path) -> None:
    """Write the graph to `file` (.xml), and its weights in half precision beside it (.bin)."""
    plain = file.with_suffix(".onnx")
    example = torch.tensor([[101, 2000, 102], [101, 2001, 102]])
    torch.onnx.export(
        Encoder(model).eval(),
        (example, torch.ones_like(example)),
        str(plain),
        input_names=[INPUT, MASK],
        output_names=[OUTPUT],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (INPUT, MASK)} | {OUTPUT: {0: "texts"}},
        opset_version=_OPSET,
        dynamo=False,
    )
    openvino.save_model(openvino.Core().read_model(plain), file, compress_to_fp16=True)
    plain.unlink()


def write_tokenizer(model: SentenceTransformer, file: Path) -> None:
    """Write the model's tokenizer, set to cut where the reference cuts and never to pad."""
    tokenizer = model.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_seq_length)
    tokenizer.save(str(file))
