"""`formulary stdio`: MCP over standard input and output, for clients that start their servers themselves.

It answers `initialize` and `tools/list` at once. Database, model and manifests load behind that.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import (
    data_dir_option,
    database_option,
    log_level_option,
    manifests_option,
    settings_of,
)
from formulary_catalog.errors import StartupError

if TYPE_CHECKING:
    from formulary_catalog.edges.calls.opening import Opening
    from formulary_catalog.kernel.parts import CatalogParts
    from formulary_catalog.metrics import Metrics
    from formulary_catalog.settings import Settings, Toolset

_BEHIND = (
    "formulary_catalog.runtime.display",
    "formulary_catalog.runtime.serving_process",
    "formulary_catalog.runtime.standalone",
    "formulary_catalog.services.governance.service",
    "formulary_catalog.services.knowledge.service",
    "formulary_catalog.services.runs.approvals",
    "formulary_catalog.services.runs.service",
    "formulary_catalog.services.workflows.browsing",
    "formulary_catalog.services.workflows.listing",
    "formulary_catalog.services.workflows.relations",
)
"""Modules that take longer to import than the protocol. They are imported once the client is greeted."""


@click.command("stdio")
@manifests_option
@data_dir_option
@database_option
@click.option(
    "--remediation-id",
    metavar="ID",
    default="",
    envvar="FORMULARY_REMEDIATION_ID",
    help="Incident whose constraints apply to all calls. [FORMULARY_REMEDIATION_ID]",
)
@click.option(
    "--toolsets",
    metavar="NAMES",
    default="",
    help="Toolsets to list and answer, separated by commas: search, runs, governance, catalog, knowledge, analytics, "
    "approvals. Default: those of FORMULARY_TOOLSETS, else the first two.",
)
@log_level_option
def stdio_command(
    *,
    manifests: tuple[Path, ...],
    data_dir: Path | None,
    database_url: str | None,
    remediation_id: str,
    toolsets: str,
    log_level: str,
) -> None:
    """Speak MCP over standard input and output.

    Reads the catalog of a `formulary up` that runs on the same data directory, or of --database-url; else loads
    manifests into an embedded PostgreSQL of its own.

    \b
    Example, in a client's configuration:
      {"command": "formulary", "args": ["stdio", "--manifests", "/path/to/workflows"]}
    """
    from formulary_catalog.edges.calls.incident import reference_text
    from formulary_catalog.runtime.process import run_until_stopped
    from formulary_catalog.settings import toolsets_of

    incident = reference_text(remediation_id, source="--remediation-id or FORMULARY_REMEDIATION_ID")
    settings = settings_of(data_dir=data_dir, database_url=database_url)
    chosen = toolsets_of(toolsets, among=settings.offered_toolsets)
    run_until_stopped(
        lambda: _stdio(settings, manifests=manifests, remediation_id=incident, toolsets=chosen, log_level=log_level)
    )


async def _stdio(
    settings: "Settings",
    *,
    manifests: tuple[Path, ...],
    remediation_id: str,
    toolsets: Collection["Toolset"],
    log_level: str,
) -> None:
    from formulary_catalog.runtime.process import importing

    with importing():
        from formulary_catalog.edges.calls.opening import Opening
        from formulary_catalog.edges.mcp.stdio import run_stdio
        from formulary_catalog.metrics import Metrics

    metrics, opening, greeted = Metrics(), Opening(), asyncio.Event()
    talking = run_stdio(
        opening=opening,
        settings=settings,
        metrics=metrics,
        remediation_id=remediation_id,
        toolsets=toolsets,
        greeted=greeted,
    )
    conversation = asyncio.create_task(talking)
    catalog = asyncio.create_task(
        _hold_open(
            opening, greeted=greeted, settings=settings, manifests=manifests, metrics=metrics, log_level=log_level
        )
    )
    try:
        await asyncio.wait([conversation])
    finally:
        catalog.cancel()
        await asyncio.wait([catalog])
        if not conversation.done():
            # Stopped by a signal: the thread that reads standard input ends only when the client closes it.
            os._exit(0)
    conversation.result()
    if not catalog.cancelled():
        catalog.result()


async def _hold_open(
    opening: "Opening",
    *,
    greeted: asyncio.Event,
    settings: "Settings",
    manifests: tuple[Path, ...],
    metrics: "Metrics",
    log_level: str,
) -> None:
    """Open the catalog once the client is greeted, and keep it open until this is cancelled."""
    await greeted.wait()  # imports would take the processor from the first answer, for which clients wait little
    from formulary_catalog.log import configure_logging

    configure_logging(level=log_level, as_json=not sys.stderr.isatty())  # until then, lines would go to the client
    try:
        for module in _BEHIND:
            await asyncio.to_thread(import_module, module)
        from formulary_catalog.operations.services import Services
        from formulary_catalog.runtime.databases import with_local_parts

        async with _catalog(settings, manifests=manifests, metrics=metrics) as parts:
            opening.opened(Services.on(parts, settings=with_local_parts(settings)))
            await asyncio.get_running_loop().create_future()
    except Exception as error:
        import structlog

        structlog.get_logger(__name__).error("catalog_not_opened", reason=str(error))
        opening.failed(error)
        raise


@asynccontextmanager
async def _catalog(
    settings: "Settings", *, manifests: tuple[Path, ...], metrics: "Metrics"
) -> AsyncIterator["CatalogParts"]:
    from formulary_catalog.runtime import databases
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.serving_process import open_catalog
    from formulary_catalog.runtime.standalone import standalone
    from formulary_catalog.settings import ContextPolicy
    from formulary_catalog.store.database.connection import Role

    fed_by_others = not manifests if settings.database_url else await databases.answers(databases.embedded(settings))
    if fed_by_others and manifests:
        raise StartupError(
            "another process already serves its own manifests from this data directory, so --manifests would be "
            "ignored; leave it out, or name another directory with --data-dir"
        )
    if fed_by_others:
        async with (
            databases.existing_database(settings, role=Role.SERVER) as dsn,
            open_catalog(settings, dsn=dsn, policy=ContextPolicy.OPTIONAL, metrics=metrics) as parts,
        ):
            yield parts
        return
    with Display() as display:
        async with standalone(settings, manifests=manifests, display=display, metrics=metrics) as catalog:
            await catalog.load(display=display)
            display.close()
            yield catalog.parts
