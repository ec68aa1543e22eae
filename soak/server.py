"""The server under test: the product's own application as a process, with an embedder that fails on command."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from formulary_catalog.edges.app import create_app
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.http.serving import serve
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.log import configure_logging
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ContextPolicy, Settings
from support.announced_address import announce


class FailingOnCommand:
    """The real embedder, which fails as long as a file exists."""

    def __init__(self, embedder: Embedder, *, fails_while: Path) -> None:
        self._embedder = embedder
        self._fails_while = fails_while

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self._check()
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self._check()
        return self._embedder.embed_query(text)

    def _check(self) -> None:
        if self._fails_while.exists():
            raise EmbedderUnavailable("The embedding model fails on command.")


async def main(*, dsn: str, fails_while: Path) -> None:
    """Serve until SIGTERM, as in a cluster: no answer without an incident, and the logging of production."""
    configure_logging(level="warning", as_json=True)
    settings, metrics = Settings(), Metrics()
    async with CatalogParts.unconnected(
        dsn=dsn, settings=settings, policy=ContextPolicy.REQUIRED, metrics=metrics
    ) as parts:
        parts.vectors.use(FailingOnCommand(load_embedder(), fails_while=fails_while))
        app = create_app(parts, settings=settings, readiness=Readiness())
        await serve(app, host="127.0.0.1", port=0, background=announce, settings=settings, metrics=metrics)


if __name__ == "__main__":
    asyncio.run(main(dsn=sys.argv[1], fails_while=Path(sys.argv[2])))
