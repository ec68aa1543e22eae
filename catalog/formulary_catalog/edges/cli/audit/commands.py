"""`formulary trace`: the audit trail, read, proven, exported and kept."""

import click

from formulary_catalog.edges.cli.audit import checkpoint, export, retention, show, verify
from formulary_catalog.edges.cli.options import Suggesting


class _InReadingOrder(Suggesting):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group("trace", cls=_InReadingOrder)
def trace_command() -> None:
    """Read, prove, export and keep the audit trail.

    Works on the database itself, as its owner; without --database-url on that of `formulary up`. `list`, `show` and
    `export` of one trace can ask a server instead, with --url and the token of a person.

    \b
    Examples:
      formulary trace list --since 24h
      formulary trace show rr-2026-0042      # an incident, from the first search to the outcome
      formulary trace verify                 # is everything as it was written?
      formulary trace export rr-2026-0042 evidence
    """


for _part in (show, verify, checkpoint, export, retention):
    for _command in _part.COMMANDS:
        trace_command.add_command(_command)
