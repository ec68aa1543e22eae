"""Which server or database a command works on: opened here, and reported when the command is done.

The line goes to standard error, also with `--json`, so that it gets into no pipe. A command with a verdict says it
there instead. A command that works on a database itself does not start where `FORMULARY_URL` names a server: its answer
would be about another catalog than that of all other commands.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.domain.text import without_userinfo
from formulary_catalog.edges.cli.options import settings_of
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.settings import Settings

SOURCE = "formulary.source"
_NAMES = "formulary.source_names"
_URL = "FORMULARY_URL"


def database_settings(*, database_url: str | None, data_dir: Path | None) -> "Settings":
    """The settings of a command that works on a database itself.

    Raises:
        InvalidInput: a value breaks a rule, or FORMULARY_URL names a server and no option a database.
    """
    if (url := os.environ.get(_URL)) and not (database_url or data_dir):
        raise InvalidInput(
            f"{_URL} is {without_userinfo(url)!r}, and this command works on a database itself, not over a server; "
            f"name the database with --database-url or --data-dir, or unset {_URL}",
            field="database_url",
        )
    return settings_of(database_url=database_url, data_dir=data_dir)


@asynccontextmanager
async def opened_database(settings: "Settings", *, role: str = "") -> AsyncIterator[str]:
    """The DSN of the database of a command, as `existing_database`; it is reported."""
    from formulary_catalog.runtime.databases import describe_database, existing_database

    async with existing_database(settings, role=role) as dsn:
        note_source(describe_database(settings))
        yield dsn


def note_source(source: str) -> None:
    """Let a server or a database be reported when the command is done; nothing outside a command."""
    if (context := click.get_current_context(silent=True)) is not None:
        context.meta[SOURCE] = context.meta.get(_NAMES, {}).get(source, source)


def name_source(source: str, name: str) -> None:
    """Let a source be reported by a name that tells people more than its address."""
    click.get_current_context().meta.setdefault(_NAMES, {})[source] = name


def take_source() -> str:
    """The source, for a verdict that names it; empty if there is none."""
    return str(click.get_current_context().meta.pop(SOURCE, ""))


def report_source(context: click.Context) -> None:
    """Print what a command worked on, unless it has said so."""
    if source := context.meta.pop(SOURCE, ""):
        click.secho(f"answer of {source}", dim=True, err=True)
