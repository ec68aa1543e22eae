"""The server that is measured: the product's own application, with one tool more that does nothing, and analytics."""

import asyncio
import sys

from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.edges.app import create_app
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.http.serving import serve
from formulary_catalog.edges.mcp.tools import TOOLS_BY_NAME, TOOLSETS, CatalogTool
from formulary_catalog.embedding import load_embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.log import configure_logging
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.operation import Call, Operation, Tool, as_it_is
from formulary_catalog.runtime.process import spare_what_stays
from formulary_catalog.settings import ContextPolicy, Settings, Toolset
from formulary_catalog.store.analytics.sessions import ROLE
from support.announced_address import announce

TRIVIAL_TOOL = "trivial"


class Nothing(Answer):
    """The answer of the tool that does nothing."""

    ok: bool = True


async def _nothing(call: Call[Arguments]) -> Nothing:
    return Nothing()


async def main(dsn: str) -> None:
    """Serve until SIGTERM, with the logging of production."""
    configure_logging(level="info", as_json=True)
    spec = Tool(
        name=TRIVIAL_TOOL, toolset=Toolset.SEARCH, title="Nothing", description="Does nothing.", shrink=as_it_is
    )
    nothing = Operation(action="nothing", arguments=Arguments, answer=Nothing, run=_nothing, tool=spec)
    trivial = CatalogTool(operation=nothing, spec=spec)
    TOOLS_BY_NAME[TRIVIAL_TOOL] = trivial
    TOOLSETS[Toolset.SEARCH] = (*TOOLSETS[Toolset.SEARCH], trivial)
    of_callers = dsn.replace("://postgres@", f"://{ROLE}@", 1)
    settings, metrics = Settings(analytics_database_url=of_callers, analytics_per_minute=1000), Metrics()
    async with CatalogParts.unconnected(
        dsn=dsn, settings=settings, policy=ContextPolicy.OPTIONAL, metrics=metrics
    ) as parts:
        parts.vectors.use(load_embedder())
        spare_what_stays()
        app = create_app(parts, settings=settings, readiness=Readiness())
        await serve(app, host="127.0.0.1", port=0, background=announce, settings=settings, metrics=metrics)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
