"""`formulary stdio`: MCP over standard input and output, for clients that start their servers themselves."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.cli.options import (
    data_dir_option,
    database_option,
    log_level_option,
    manifests_option,
    settings_of,
)
from formulary_catalog.errors import StartupError

if TYPE_CHECKING:
    from formulary_catalog.metrics import Metrics
    from formulary_catalog.search.service import CatalogService
    from formulary_catalog.settings import Settings


@click.command("stdio")
@manifests_option
@data_dir_option
@database_option
@log_level_option
def command(*, manifests: tuple[Path, ...], data_dir: Path | None, database_url: str | None, log_level: str) -> None:
    """Speak MCP over standard input and output.

    Reads the catalog of a `formulary up` that runs on the same data directory, or of --database-url; else loads
    manifests into an embedded PostgreSQL of its own.

    \b
    Example, in a client's configuration:
      {"command": "formulary", "args": ["stdio", "--manifests", "/path/to/workflows"]}
    """
    from formulary_catalog.cli.stopping import run_until_stopped
    from formulary_catalog.log import configure_logging

    settings = settings_of(data_dir=data_dir, database_url=database_url)
    configure_logging(level=log_level, as_json=not sys.stderr.isatty())
    run_until_stopped(lambda: _stdio(settings, manifests=manifests))


async def _stdio(settings: "Settings", *, manifests: tuple[Path, ...]) -> None:
    from formulary_catalog.server.stdio import run_stdio

    conversation: asyncio.Task[None] | None = None
    try:
        async with _catalog(settings, manifests=manifests) as (service, metrics):
            conversation = asyncio.create_task(run_stdio(service=service, settings=settings, metrics=metrics))
            await asyncio.wait([conversation])
    finally:
        if conversation is not None and not conversation.done():
            # Stopped by a signal: the thread that reads standard input ends only when the client closes it.
            os._exit(0)
    conversation.result()


@asynccontextmanager
async def _catalog(
    settings: "Settings", *, manifests: tuple[Path, ...]
) -> AsyncIterator[tuple["CatalogService", "Metrics"]]:
    from formulary_catalog.cli import databases
    from formulary_catalog.cli.display import Display
    from formulary_catalog.cli.services import reading
    from formulary_catalog.cli.standalone import standalone
    from formulary_catalog.settings import ContextPolicy
    from formulary_catalog.store.database import Role

    fed_by_others = not manifests if settings.database_url else await databases.answers(databases.embedded(settings))
    if fed_by_others and manifests:
        raise StartupError(
            "another process already serves its own manifests from this data directory, so --manifests would be "
            "ignored; leave it out, or name another directory with --data-dir"
        )
    if fed_by_others:
        async with (
            databases.existing_database(settings, role=Role.SERVER) as dsn,
            reading(settings, dsn=dsn, policy=ContextPolicy.OPTIONAL) as opened,
        ):
            yield opened.service, opened.metrics
        return
    with Display() as display:
        async with standalone(settings, manifests=manifests, display=display) as catalog:
            await catalog.load(display=display)
            display.close()
            yield catalog.service, catalog.metrics
