"""`formulary approve`: say yes or no to a run that waits for a person."""

import click

from formulary_catalog.cli.options import json_option
from formulary_catalog.cli.targets import url_option


@click.command("approve")
@click.argument("invocation_id", metavar="ID")
@click.option("--reject", is_flag=True, help="Say no: the run is not begun.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever reads the trail.")
@click.option(
    "--digest", default="", metavar="DIGEST", help="Approve this content alone; `formulary invocation` shows it."
)
@url_option
@json_option
def command(*, invocation_id: str, reject: bool, reason: str, digest: str, url: str | None, as_json: bool) -> None:
    """Approve a run that waits for it, or reject it.

    ID is what `formulary invoke` showed. Who approves is whom FORMULARY_TOKEN belongs to; it takes the right to create
    invocationapprovals in the namespace of the run.

    \b
    Examples:
      formulary approve inv-0123456789abcdef0123 --reason "checked with the team"
      formulary approve inv-0123456789abcdef0123 --reject --reason "sale is running"
    """
    from formulary_catalog.cli.run_rendering import show_run
    from formulary_catalog.cli.runs import ask_for_runs
    from formulary_catalog.cli.terminal import Page
    from formulary_catalog.domain.invocation import require_invocation_id

    require_invocation_id(invocation_id)
    decision = "Reject" if reject else "Approve"
    answer = ask_for_runs(
        url, lambda runs: runs.approve(invocation_id, decision=decision, reason=reason, digest=digest)
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_run(answer, page=Page())
