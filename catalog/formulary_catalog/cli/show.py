"""`formulary show`: one workflow in full."""

import click

from formulary_catalog.cli.options import json_option
from formulary_catalog.cli.targets import Target, target_options


@click.command("show")
@click.argument("workflow_id", metavar="ID")
@click.option("--version", default="", metavar="VERSION", help="This version instead of the one that is served.")
@target_options
@json_option
def command(*, workflow_id: str, version: str, target: Target, as_json: bool) -> None:
    """Show all of one workflow.

    ID is name, namespace/name, name@version or wf_ver_….

    \b
    Examples:
      formulary show oom-raise-memory-limit
      formulary show oom-raise-memory-limit@1.0.0 --json
    """
    from formulary_catalog.cli.rendering import show_details
    from formulary_catalog.cli.terminal import Page
    from formulary_catalog.domain.identity import parse_reference

    parse_reference(workflow_id, version=version)
    details = target.ask(
        lambda catalog: catalog.details(workflow_id, version=version, remediation_id=target.remediation_id)
    )
    if as_json:
        click.echo(details.model_dump_json())
    else:
        show_details(details, page=Page())
