"""`formulary migrate` and `reembed`: bring a database to this version's schema, or to another model."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import (
    data_dir_option,
    database_option,
    json_option,
    required_database,
    settings_of,
)
from formulary_catalog.edges.cli.sources import database_settings, opened_database

if TYPE_CHECKING:
    from formulary_catalog.loading.vectors import ReembeddingReport
    from formulary_catalog.settings import Settings


@click.command("migrate")
@database_option
def migrate_command(*, database_url: str | None) -> None:
    """Create or upgrade the schema of a database.

    Run it before `formulary serve`; it is safe to repeat.

    \b
    Example:
      formulary migrate --database-url postgresql://owner@db/formulary
    """
    from formulary_catalog.store.database.migrate import HEAD, describe, migrate

    dsn = required_database(settings_of(database_url=database_url))
    migrate(dsn)
    click.echo(f"{describe(dsn)} is at revision {HEAD}")


@click.command("reembed")
@click.option(
    "--to",
    "model",
    metavar="MODEL",
    help="`bundled`, `all-MiniLM-L6-v2`, a directory, a hub id or an endpoint; by default the model of the settings. "
    "[FORMULARY_EMBEDDING_MODEL] An endpoint is sent FORMULARY_EMBEDDING_API_KEY only if the settings name it.",
)
@database_option
@data_dir_option
@json_option
def reembed_command(
    *,
    model: str | None,
    database_url: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Change the embedding model of a catalog.

    Run it after FORMULARY_EMBEDDING_MODEL names another model: servers and operators whose model is not that of the
    catalog rank by words alone. If it is interrupted, the same command continues where it stopped.

    \b
    Examples:
      formulary reembed
      formulary reembed --to /models/e5-small --database-url postgresql://owner@db/formulary
    """
    settings = database_settings(database_url=database_url, data_dir=data_dir)
    report = asyncio.run(_reembed(settings, model=model or settings.embedding_model))
    if as_json:
        click.echo(json.dumps(_as_json(report), ensure_ascii=False))
    else:
        _show(report)


async def _reembed(settings: "Settings", *, model: str) -> "ReembeddingReport":
    from formulary_catalog.embedding.embedder import PATIENCE_SECONDS
    from formulary_catalog.errors import EmbedderUnavailable
    from formulary_catalog.loading.vectors import reembed
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.model_watch import start_loading
    from formulary_catalog.store.database.connection import Role
    from formulary_catalog.store.database.migrate import require_current_schema

    with Display() as display:
        async with opened_database(settings, role=Role.WRITER) as dsn:
            await require_current_schema(dsn)
            display.step("loading the model")
            embedder = await start_loading(settings, source=model, patience_seconds=PATIENCE_SECONDS)
            if isinstance(embedder, EmbedderUnavailable):
                raise embedder
            return await reembed(dsn, embedder=embedder, progress=display.progress)


def _show(report: "ReembeddingReport") -> None:
    from formulary_catalog.runtime.terminal import Page, counted

    page = Page()
    embedded = f"{counted(report.workflows, 'workflow')}, {counted(report.embedded, 'text')} embedded now"
    if report.changed:
        before = f", before by {report.before}" if report.before else ""
        page.line(f"Searches rank by {report.model_id}{before}: {embedded}", style="bold")
    else:
        page.line(f"{report.model_id} served already: {embedded}", style="bold")
    if report.unreadable:
        page.line(
            f"{counted(len(report.unreadable), 'workflow')} cannot be read by this release and are found by words "
            "alone: `formulary validate` says what is wrong with a manifest",
            style="yellow",
        )
    if report.refused:
        page.line(
            f"{counted(len(report.refused), 'workflow')} cannot be embedded and are found by words alone: "
            f"{report.refusal}",
            style="yellow",
        )
    if report.purged:
        page.line(f"{counted(report.purged, 'vector')} of other models deleted")


def _as_json(report: "ReembeddingReport") -> dict[str, object]:
    return {
        "model": report.model_id,
        "before": report.before,
        "changed": report.changed,
        "workflows": report.workflows,
        "embedded": report.embedded,
        "unreadable": sorted(report.unreadable),
        "refused": sorted(report.refused),
        "purged": report.purged,
    }
