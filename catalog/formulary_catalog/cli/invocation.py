"""`formulary invocation`: where a run stands."""

import click

from formulary_catalog.cli.options import json_option
from formulary_catalog.cli.targets import url_option


@click.command("invocation")
@click.argument("invocation_id", metavar="ID")
@click.option("--wait", is_flag=True, help="Wait until it is over.")
@url_option
@json_option
def command(*, invocation_id: str, wait: bool, url: str | None, as_json: bool) -> None:
    """Show where a run stands.

    ID is what `formulary invoke` showed. Ends with 1 if the run ended without success.

    \b
    Example:
      formulary invocation inv-0123456789abcdef0123 --wait
    """
    from formulary_catalog.cli.run_rendering import show_progress, show_run
    from formulary_catalog.cli.runs import ask_for_runs, is_over
    from formulary_catalog.cli.terminal import Page
    from formulary_catalog.domain.invocation import require_invocation_id

    require_invocation_id(invocation_id)
    answer = ask_for_runs(
        url,
        lambda runs: runs.until_over(invocation_id, tell=show_progress) if wait else runs.status(invocation_id),
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_run(answer, page=Page())
    if is_over(answer) and answer.state != "completed":
        raise SystemExit(1)
