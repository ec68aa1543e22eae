"""Text to vectors, inside the serving process (DESIGN sections 1 and 10; `docs/embedding.md`)."""

import os

# onnxruntime reports to its maker unless told otherwise before it is imported; a server in a cluster must not.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from formulary_catalog.embedding.embedder import Embedder, load_embedder  # the variable must come first

__all__ = ["Embedder", "load_embedder"]
