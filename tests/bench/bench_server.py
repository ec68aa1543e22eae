"""The server that `bench.py` measures: the product's own application, with one tool more that does nothing."""

import asyncio
import sys
from pathlib import Path

from formulary_catalog.domain.answers import Answer
from formulary_catalog.embedding import load_embedder
from formulary_catalog.log import configure_logging
from formulary_catalog.metrics import Metrics
from formulary_catalog.server.app import create_app
from formulary_catalog.server.readiness import Readiness
from formulary_catalog.server.run import serve
from formulary_catalog.server.size import Json
from formulary_catalog.server.toolbox import TOOLS_BY_NAME
from formulary_catalog.server.tools import Arguments, Call, CatalogTool
from formulary_catalog.settings import Settings
from formulary_catalog.store.embedded import EmbeddedPostgres
from support.serving import catalog

READY = "listening on "
TRIVIAL_TOOL = "trivial"


class Nothing(Answer):
    """The answer of the tool that does nothing."""

    ok: bool = True


async def _tell(port: int) -> None:
    print(f"{READY}http://127.0.0.1:{port}", flush=True)


async def _nothing(call: Call) -> Nothing:
    return Nothing()


def _as_it_is(answer: Json, arguments: Arguments) -> Json:
    return answer


async def main(*, data_dir: Path, workflows: Path) -> None:
    """Serve until SIGTERM, with the logging of production."""
    configure_logging(level="info", as_json=True)
    TOOLS_BY_NAME[TRIVIAL_TOOL] = CatalogTool(
        name=TRIVIAL_TOOL,
        title="Nothing",
        description="Does nothing.",
        action="nothing",
        parameters=(),
        answer=Nothing,
        run=_nothing,
        shrink=_as_it_is,
    )
    embedder = load_embedder()
    with EmbeddedPostgres(data_dir=data_dir) as postgres:
        async with catalog([workflows], postgres=postgres, embedder=embedder) as service:
            app = create_app(service=service, settings=Settings(), readiness=Readiness(), metrics=Metrics())
            await serve(app, host="127.0.0.1", port=0, beside=_tell)


if __name__ == "__main__":
    asyncio.run(main(data_dir=Path(sys.argv[1]), workflows=Path(sys.argv[2])))
