"""`formulary governance`: the rules in force, and the judgement on actions that the tools give."""

import click

from formulary_catalog.cli import governance_contracts, governance_evaluate


@click.group("governance")
def command() -> None:
    """Judge actions as the governance tools do, and read the contracts in force.

    Works on the database itself; without --database-url on that of `formulary up`.

    \b
    Examples:
      formulary governance contracts
      formulary governance evaluate --task "restart the shop" --action "kubectl delete pod web-0"
    """


command.add_command(governance_evaluate.command)
command.add_command(governance_contracts.command)
