"""MCP over standard input and output, for clients that start the server themselves."""

from mcp.server.stdio import stdio_server

from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.callers import LOCAL
from formulary_catalog.server.protocol import mcp_server
from formulary_catalog.server.readiness import Readiness
from formulary_catalog.server.services import Services
from formulary_catalog.settings import Settings


async def run_stdio(*, service: CatalogService, settings: Settings, metrics: Metrics) -> None:
    """Serve one client until it closes standard input. Nothing else may read or write the two streams meanwhile."""
    server = mcp_server(
        services=Services.on(service, settings=settings),
        settings=settings,
        readiness=Readiness(),
        metrics=metrics,
        caller_of=lambda _: LOCAL,
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
