"""A server over stdio, as a program of its own: `python -c SERVER DSN`."""

SERVER = """
import asyncio, sys
from formulary_catalog.metrics import Metrics
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.edges.calls.opening import Opening
from formulary_catalog.operations.services import Services
from formulary_catalog.edges.mcp.stdio import run_stdio
from formulary_catalog.settings import ContextPolicy, Settings

async def main():
    metrics = Metrics()
    async with CatalogParts.unconnected(
        dsn=sys.argv[1], settings=Settings(), policy=ContextPolicy.OPTIONAL, metrics=metrics
    ) as parts:
        opening = Opening(Services.on(parts, settings=Settings()))
        await run_stdio(opening=opening, settings=Settings(), metrics=metrics)

asyncio.run(main())
"""
