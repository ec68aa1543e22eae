"""`formulary doctor`: what is in order, what is not, and the way out."""

import asyncio
import json
from pathlib import Path

import click

from formulary_catalog.edges.cli.options import DEFAULT_URL, data_dir_option, database_option, json_option, settings_of

_LABEL_WIDTH = 14


@click.command("doctor")
@click.option("--url", envvar="FORMULARY_URL", default=DEFAULT_URL, help="Server to look for. [FORMULARY_URL]")
@database_option
@data_dir_option
@json_option
def doctor_command(*, url: str, database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Check this installation and suggest fixes.

    Model, database, schema, protection, catalog, server. Exit code 3 if something is wrong.

    \b
    Examples:
      formulary doctor
      formulary doctor --database-url postgresql://owner@db/formulary --json
    """
    from formulary_catalog.runtime.checks import checks
    from formulary_catalog.runtime.terminal import Page

    settings = settings_of(database_url=database_url, data_dir=data_dir)
    found = asyncio.run(checks(settings, url=url))
    amiss = [check for check in found if not check.ok]
    if as_json:
        listed = [
            {"name": check.name, "ok": check.ok, "detail": check.detail, "way_out": check.way_out} for check in found
        ]
        click.echo(json.dumps({"ok": not amiss, "checks": listed}, ensure_ascii=False))
    else:
        page = Page()
        for check in found:
            mark, style = ("✓", "green") if check.ok else ("✗", "red")
            page.line(f"{mark} {check.name.ljust(_LABEL_WIDTH)}{check.detail}", style=style)
            if not check.ok:
                page.line(f"  {' ' * _LABEL_WIDTH}{check.way_out}")
    if amiss:
        raise SystemExit(3)
