"""`formulary migrate` and `reembed`: bring a database to this version's schema, or to another model."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.cli.options import data_dir_option, database_option, json_option, required_database, settings_of

if TYPE_CHECKING:
    from formulary_catalog.loading.reembedding import ReembeddingReport
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
@click.option(
    "--notice",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Minimum time for running servers to load the new model before searches need it. Default: 30. Servers look "
    "every 5 seconds: with less than 15 some may rank by words for a moment.",
)
@click.option("--cancel", is_flag=True, help="Cancel a change that is not complete.")
@database_option
@data_dir_option
@json_option
def reembed_command(
    *,
    model: str | None,
    notice: float | None,
    cancel: bool,
    database_url: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Change the embedding model of a catalog.

    Searches go on with the vectors of the present model until every workflow has one of the new model. If it is
    interrupted, the same command goes on where it stopped; the vectors of the present model are kept, so that going
    back takes seconds.

    \b
    Examples:
      formulary reembed --to /models/e5-small
      formulary reembed --to bundled --database-url postgresql://owner@db/formulary
      formulary reembed --cancel
    """
    if cancel and (model is not None or notice is not None):
        raise click.UsageError("--cancel gives up whatever model is being prepared; leave out --to and --notice")
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    if cancel:
        given_up = asyncio.run(_cancel(settings))
        if as_json:
            click.echo(json.dumps({"cancelled": given_up}))
        else:
            click.echo(f"{given_up} is no longer being prepared" if given_up else "no model was being prepared")
        return
    report = asyncio.run(_reembed(settings, model=model or settings.embedding_model, notice=notice))
    if as_json:
        click.echo(json.dumps(_as_json(report), ensure_ascii=False))
    else:
        _show(report)


async def _cancel(settings: "Settings") -> str:
    from formulary_catalog.runtime import databases
    from formulary_catalog.store.database.connection import Database, Role
    from formulary_catalog.store.workflows.reembedding import SWITCH_SECONDS, ReembeddingStore

    async with (
        databases.existing_database(settings, role=Role.WRITER) as dsn,
        Database.opened(dsn, role=Role.WRITER, size=1, deadline=SWITCH_SECONDS) as database,
    ):
        return await ReembeddingStore(database).cancel()


async def _reembed(settings: "Settings", *, model: str, notice: float | None) -> "ReembeddingReport":
    from formulary_catalog.embedding.embedder import PATIENCE_SECONDS
    from formulary_catalog.embedding.finding import source_to_keep
    from formulary_catalog.errors import EmbedderUnavailable
    from formulary_catalog.loading.reembedding import NOTICE_SECONDS, Reembedding
    from formulary_catalog.runtime import databases
    from formulary_catalog.runtime.display import Display
    from formulary_catalog.runtime.model_loading import start_loading
    from formulary_catalog.store.database.connection import Database, Role
    from formulary_catalog.store.database.migrate import require_current_schema
    from formulary_catalog.store.embedding_models import ModelStore
    from formulary_catalog.store.workflows.reembedding import SWITCH_SECONDS, ReembeddingStore

    with Display() as display:
        async with databases.existing_database(settings, role=Role.WRITER) as dsn:
            await require_current_schema(dsn)
            display.step("loading the model")
            embedder = await start_loading(settings, source=model, patience_seconds=PATIENCE_SECONDS)
            if isinstance(embedder, EmbedderUnavailable):
                raise embedder
            async with Database.opened(dsn, role=Role.WRITER, size=1, deadline=SWITCH_SECONDS) as database:
                return await Reembedding(
                    models=ModelStore(database),
                    store=ReembeddingStore(database),
                    embedder=embedder,
                    source=source_to_keep(model),
                    notice_seconds=NOTICE_SECONDS if notice is None else notice,
                    progress=display.progress,
                ).run()


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
        page.line(f"{counted(report.purged, 'vector')} of models that served earlier deleted")


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
