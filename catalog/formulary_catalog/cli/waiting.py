"""`formulary approvals`: the runs that wait for a person, and what that person has to judge."""

from datetime import UTC, datetime

import click

from formulary_catalog.cli.options import json_option
from formulary_catalog.cli.targets import url_option

_MOST = 200


@click.command("approvals")
@click.option("--namespace", default="", metavar="NAME", help="Those in this namespace.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, metavar="N", help="At most so many; 50 by default.")
@url_option
@json_option
def approvals_command(*, namespace: str, limit: int, url: str | None, as_json: bool) -> None:
    """List runs that wait for a person, the oldest first.

    Lists the runs that the owner of FORMULARY_TOKEN may read. Needs a running server. Exit code 1 if none waits.

    \b
    Examples:
      formulary approvals
      formulary approvals --namespace shop --url https://formulary.example --json
    """
    from formulary_catalog.cli.catalog.rendering import show_waiting
    from formulary_catalog.cli.http_client import ask_for_runs
    from formulary_catalog.runtime.terminal import Page

    answer = ask_for_runs(url, lambda runs: runs.waiting(namespace=namespace, limit=limit))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_waiting(answer, now=datetime.now(UTC), page=Page())
    if not answer.approvals:
        raise SystemExit(1)
