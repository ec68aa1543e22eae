"""Text to vectors, inside the serving process (DESIGN sections 1 and 10; `docs/embedding.md`)."""

from formulary_catalog.embedding.embedder import Embedder, load_embedder

__all__ = ["Embedder", "load_embedder"]
