"""`formulary runbooks`: loads directories of runbooks, lists what is there, and removes it.

These commands write, so they take a database whose user may, and ask no server.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.edges.cli.options import (
    DIRECTORY,
    Suggesting,
    data_dir_option,
    database_option,
    json_option,
)
from formulary_catalog.edges.cli.sources import database_settings, opened_database
from formulary_catalog.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from formulary_catalog.loading.runbooks import RunbookReport
    from formulary_catalog.settings import Settings
    from formulary_catalog.store.knowledge.runbooks import Replacement, RunbookSource, RunbookWriter

_WRITE_SECONDS = 60.0


@click.group("runbooks", cls=Suggesting)
def runbooks_command() -> None:
    """Load, list and remove runbooks, which searches of documents find.

    \b
    Examples:
      formulary runbooks load runbooks
      formulary runbooks list
    """


@runbooks_command.command("load")
@click.argument("directories", nargs=-1, required=True, type=DIRECTORY, metavar="DIR...")
@click.option("--name", metavar="NAME", help="Name that its runbooks are known by. Default: that of DIR.")
@database_option
@data_dir_option
@json_option
def load(
    *, directories: tuple[Path, ...], name: str | None, database_url: str | None, data_dir: Path | None, as_json: bool
) -> None:
    """Load the Markdown files of directories, and remove what is no longer in them.

    A directory is known by its name. It is refused if another directory has that name; --name gives it another name, or
    with that name replaces the other directory. A running server embeds what is loaded; until then searches find it by
    words alone. Exit code 1 if a file or a directory was refused.

    \b
    Examples:
      formulary runbooks load ./runbooks
      formulary runbooks load ./team/runbooks --name team-runbooks
      formulary runbooks load ./runbooks --database-url postgresql://writer@db/formulary
    """
    from formulary_catalog.domain.text import one_line
    from formulary_catalog.edges.cli.knowledge.runbook_pages import show_loaded
    from formulary_catalog.runtime.terminal import Page

    settings = database_settings(database_url=database_url, data_dir=data_dir)
    report = asyncio.run(_load(settings, directories, name=name))
    if as_json:
        click.echo(json.dumps(_loaded_as_json(report)))
    else:
        problems = Page(sys.stderr)
        for rejection in report.rejections:
            problems.line(one_line(f"rejected: {rejection.message}"))
        show_loaded(report, page=Page())
    if report.rejections:
        raise SystemExit(1)


@runbooks_command.command("list")
@database_option
@data_dir_option
@json_option
def list_(*, database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """List where the runbooks come from: directories that were loaded, and ConfigMaps.

    \b
    Examples:
      formulary runbooks list
      formulary runbooks list --database-url postgresql://writer@db/formulary --json
    """
    from formulary_catalog.edges.cli.knowledge.runbook_pages import show_sources
    from formulary_catalog.runtime.terminal import Page

    sources = asyncio.run(_list(database_settings(database_url=database_url, data_dir=data_dir)))
    if as_json:
        click.echo(json.dumps({"sources": [_source_as_json(each) for each in sources], "total": len(sources)}))
    else:
        show_sources(sources, page=Page())


@runbooks_command.command("remove")
@click.argument("name", metavar="NAME")
@database_option
@data_dir_option
@json_option
def remove(*, name: str, database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Remove the runbooks of a directory that was loaded, by its name; the files stay where they are.

    \b
    Examples:
      formulary runbooks remove team-runbooks
      formulary runbooks remove runbooks --database-url postgresql://writer@db/formulary
    """
    from formulary_catalog.edges.cli.knowledge.runbook_pages import show_removed
    from formulary_catalog.runtime.terminal import Page

    gone = asyncio.run(_remove(database_settings(database_url=database_url, data_dir=data_dir), name))
    if as_json:
        click.echo(json.dumps({"name": name, "removed": gone.removed}))
    else:
        show_removed(name, gone, page=Page())


@asynccontextmanager
async def _writer(settings: "Settings") -> AsyncIterator["RunbookWriter"]:
    from formulary_catalog.store.database.connection import Database, Role
    from formulary_catalog.store.knowledge.runbooks import RunbookWriter

    async with (
        opened_database(settings, role=Role.WRITER) as dsn,
        Database.opened(dsn, role=Role.WRITER, size=1, deadline=_WRITE_SECONDS) as database,
    ):
        yield RunbookWriter(database)


async def _load(settings: "Settings", directories: tuple[Path, ...], *, name: str | None) -> "RunbookReport":
    from formulary_catalog.loading.runbooks import RunbookLoader

    async with _writer(settings) as writer:
        loader = RunbookLoader(directories, writer=writer, namespace=settings.catalog_namespace, name=name)
        return await loader.load()


async def _list(settings: "Settings") -> "list[RunbookSource]":
    async with _writer(settings) as writer:
        return await writer.sources()


async def _remove(settings: "Settings", name: str) -> "Replacement":
    """Remove a directory.

    Raises:
        InvalidInput: the name is that of a ConfigMap, whose runbooks would come back.
        NotFound: nothing has this name.
    """
    from formulary_catalog.store.knowledge.runbooks import CONFIG_MAP, DIRECTORY

    async with _writer(settings) as writer:
        origins = {each.origin for each in await writer.sources()}
        if f"{DIRECTORY}{name}" in origins:
            return await writer.remove(f"{DIRECTORY}{name}")
    if f"{CONFIG_MAP}{name}" in origins:
        raise InvalidInput(
            f"the runbooks of {name} come from a ConfigMap, and would come back; remove its label "
            "formulary.dev/runbooks, or the ConfigMap",
            field="name",
        )
    known = ", ".join(sorted(each.removeprefix(DIRECTORY) for each in origins if each.startswith(DIRECTORY)))
    said = f"loaded directories are: {known}" if known else "no directory is loaded"
    raise NotFound(f"no runbooks are called {name[:80]!r}; {said}", reference=name)


def _loaded_as_json(report: "RunbookReport") -> dict[str, Any]:
    return {
        "files": report.files,
        "documents": report.documents,
        "directories": [
            {
                "name": each.name,
                "place": each.place,
                "place_before": each.files.place_before,
                "documents": each.documents,
                "added": each.files.added,
                "replaced": each.files.replaced,
                "unchanged": each.files.unchanged,
                "removed": each.files.removed,
            }
            for each in report.directories
        ],
        "rejections": [{"source": each.source, "message": each.message} for each in report.rejections],
    }


def _source_as_json(source: "RunbookSource") -> dict[str, Any]:
    kind, _, name = source.origin.partition(":")
    return {
        "name": name,
        "kind": kind,
        "namespace": source.namespace,
        "place": source.place,
        "files": source.files,
        "documents": source.documents,
        "loaded_at": source.loaded_at.isoformat() if source.loaded_at else "",
    }
