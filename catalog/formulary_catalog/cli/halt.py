"""`formulary halt`: the emergency stop."""

import json
from pathlib import Path

import click

from formulary_catalog.cli.halting import as_json_of, at_work, namespace_option, who
from formulary_catalog.cli.options import data_dir_option, database_option, json_option, settings_of


@click.command("halt")
@click.option("--reason", required=True, metavar="TEXT", help="Why; recorded, and shown to whoever wants to run.")
@namespace_option("Halt the runs in this namespace only; everywhere without it.")
@database_option
@data_dir_option
@json_option
def command(*, reason: str, namespace: str, database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Stop everything: end all runs, let none begin.

    Once this returns nothing starts any more. The operator ends what runs within seconds. What was halted stays ended;
    `formulary resume` lets new runs begin. Searches go on and say it. In a cluster a GovernanceContract with a rule of
    effect HALT does the same.

    \b
    Examples:
      formulary halt --reason "restarts make the outage worse"
      formulary halt --namespace shop --reason "migration of the database" --database-url postgresql://owner@db/formulary
    """
    from formulary_catalog.domain.governance.halting import require_reason

    require_reason(reason)
    settings = settings_of(database_url=database_url, data_dir=data_dir)
    halt, ended = at_work(settings, lambda halts: halts.halt(namespace=namespace, reason=reason.strip(), by=who()))
    if as_json:
        click.echo(json.dumps({"halted": as_json_of(halt), "ended_runs": ended}, ensure_ascii=False))
        return
    click.echo(str(halt))
    click.echo(f"{ended} {'run ends' if ended == 1 else 'runs end'}; recorded in trace {halt.trace_id}")
    click.echo(f"lift it with {halt.way_out}")
