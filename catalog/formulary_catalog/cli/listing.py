"""`formulary list`: what the catalog holds."""

import click

from formulary_catalog.cli.options import json_option
from formulary_catalog.cli.targets import Target, target_options


@click.command("list")
@target_options
@json_option
def command(*, target: Target, as_json: bool) -> None:
    """List the workflows that are served.

    \b
    Examples:
      formulary list
      formulary list --remediation-id rr-2026-0042   # only what this incident allows
    """
    from formulary_catalog.cli.rendering import show_list
    from formulary_catalog.cli.terminal import Page

    listing = target.ask(lambda catalog: catalog.list_workflows(remediation_id=target.remediation_id))
    if as_json:
        click.echo(listing.model_dump_json())
    else:
        show_list(listing, page=Page())
    if not listing.workflows:
        raise SystemExit(1)
