"""`formulary resume`: lift the emergency stop."""

import json
from pathlib import Path

import click

from formulary_catalog.cli.halting import as_json_of, at_work, namespace_option, who
from formulary_catalog.cli.options import data_dir_option, database_option, json_option, settings_of


@click.command("resume")
@click.option("--reason", default="", metavar="TEXT", help="Why; recorded.")
@namespace_option("Lift the halt of this namespace; that of everywhere without it.")
@database_option
@data_dir_option
@json_option
def command(*, reason: str, namespace: str, database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Lift a halt, so that new runs may begin.

    What was halted stays ended. A halt that a GovernanceContract says is lifted there. Exit code 1 if nothing was
    halted so.

    \b
    Examples:
      formulary resume
      formulary resume --namespace shop --reason "the migration is done"
    """
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    lifted, left = at_work(settings, lambda halts: halts.resume(namespace=namespace, reason=reason, by=who()))
    if as_json:
        said = {
            "lifted": as_json_of(lifted) if lifted is not None else None,
            "in_force": [as_json_of(halt) for halt in left],
        }
        click.echo(json.dumps(said, ensure_ascii=False))
    else:
        where = f"in namespace {namespace}" if namespace else "everywhere"
        click.echo(f"the halt {where} is lifted: new runs may begin" if lifted else f"nothing was halted {where}")
        for halt in left:
            click.echo(f"still in force: {halt}; the way out: {halt.way_out}")
    if lifted is None:
        raise SystemExit(1)
