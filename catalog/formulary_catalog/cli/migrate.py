"""`formulary migrate`: brings a database to the schema of this version."""

import click

from formulary_catalog.cli.options import database_option, required_database, settings_of


@click.command("migrate")
@database_option
def command(*, database_url: str | None) -> None:
    """Create or upgrade the schema of a database.

    Run it before `formulary serve`; it is safe to repeat.

    \b
    Example:
      formulary migrate --database-url postgresql://owner@db/formulary
    """
    from formulary_catalog.store.migrate import HEAD, describe, migrate

    dsn = required_database(settings_of(database_url=database_url))
    migrate(dsn)
    click.echo(f"{describe(dsn)} is at revision {HEAD}")
