"""Text to vectors, inside the serving process (DESIGN sections 1 and 10; `docs/embedding.md`)."""

import sys

# OpenVINO brings a package that reports to its maker as soon as it is imported, and does without where there is none;
# a server in a cluster must not report.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # this is how an import is forbidden

from formulary_catalog.embedding.embedder import Embedder, load_embedder  # noqa: E402  # once it is forbidden

__all__ = ["Embedder", "load_embedder"]
