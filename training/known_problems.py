"""Embeds what the adapter was trained on by the bundled model, and writes it into the package: `make known-problems`.

These are the problems of this directory and the workflows of the starter catalog. Confidence counts how near a query is
to the nearest of them (`embedding/known_problems.py`). Half precision: 0.14 MB. To be run after each
change of the problems or of the adapter, before `make calibrate`.
"""

import numpy as np
from safetensors.numpy import save

from dataset import collect
from formulary_catalog.embedding import load_embedder
from formulary_catalog.embedding.known_problems import FILE
from formulary_catalog.embedding.model import BUNDLED


def main() -> None:
    """Embed and write."""
    texts = collect().documents
    embedder = load_embedder(BUNDLED)
    FILE.write_bytes(save({embedder.model_id: embedder.embed_documents(list(texts)).astype(np.float16)}))
    print(f"{FILE.name}: {len(texts)} texts by {embedder.model_id}")


if __name__ == "__main__":
    main()
