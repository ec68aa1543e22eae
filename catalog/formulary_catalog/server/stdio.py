"""MCP over standard input and output, for clients that start the server themselves."""

from mcp.server.stdio import stdio_server
from starlette.datastructures import Headers

from formulary_catalog.metrics import Metrics
from formulary_catalog.server.callers import LOCAL
from formulary_catalog.server.incident import REMEDIATION_HEADER
from formulary_catalog.server.protocol import mcp_server
from formulary_catalog.server.readiness import Readiness
from formulary_catalog.server.services import Opening
from formulary_catalog.settings import Settings


async def run_stdio(*, opening: Opening, settings: Settings, metrics: Metrics, remediation_id: str = "") -> None:
    """Serve one client until it closes standard input. Nothing else may read or write the two streams meanwhile.

    All calls belong to the incident of `remediation_id`, as if each sent it in the header; without it, to that of
    their `_meta`.
    """
    server = mcp_server(
        opening=opening,
        settings=settings,
        readiness=Readiness(),
        metrics=metrics,
        caller_of=lambda _: LOCAL,
        own_headers=Headers({REMEDIATION_HEADER: remediation_id}),
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
