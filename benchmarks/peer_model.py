"""The product's embedding model as the peers of `bench_mcp_peers.py` want it: unfused, and where each looks for it.

A program of its own, because torch takes hundreds of megabytes: `python peer_model.py DIRECTORY`.
"""

import shutil
import sys
import warnings
from pathlib import Path

CHROMA = Path(".cache/chroma/onnx_models/all-MiniLM-L6-v2/onnx")
"""Below the home directory of the process."""
FASTEMBED = Path("fastembed")
"""The value of FASTEMBED_CACHE_PATH, a cache of the model hub."""

_HUB_NAME = "models--Qdrant--all-MiniLM-L6-v2-onnx"
_REVISION = "0" * 40
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_OUTPUT = "last_hidden_state"
_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


def install(home: Path) -> None:
    """Write the model into a home directory, once for each peer."""
    chroma = home / CHROMA
    chroma.mkdir(parents=True)
    _export(chroma)
    hub = home / FASTEMBED / _HUB_NAME
    shutil.copytree(chroma, hub / "snapshots" / _REVISION)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(_REVISION, encoding="ascii")


def _export(directory: Path) -> None:
    import torch
    from transformers import AutoModel

    from formulary_catalog.embedding.model import BASE, locate

    source = locate(BASE).path

    class States(torch.nn.Module):
        """The states of the last layer, which peers pool themselves."""

        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(source, attn_implementation="eager")

        def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
            found = self.model(input_ids=ids, attention_mask=mask, token_type_ids=types)
            states: torch.Tensor = found.last_hidden_state
            return states

    example = torch.ones(2, 3, dtype=torch.int64)
    torch.onnx.export(
        States().eval(),
        (example, example, example * 0),
        str(directory / "model.onnx"),
        input_names=list(_INPUTS),
        output_names=[_OUTPUT],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (*_INPUTS, _OUTPUT)},
        opset_version=17,
        dynamo=False,
    )
    for name in _FILES:
        shutil.copy(source / name, directory / name)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    install(Path(sys.argv[1]))
