"""The group of all commands: each is imported when it is needed, and every expected error ends in one line."""

import json
from importlib import import_module
from typing import Any, NoReturn

import click

from formulary_catalog import __version__
from formulary_catalog.cli.options import wants_json
from formulary_catalog.errors import FormularyError

_COMMANDS = {
    "up": "formulary_catalog.cli.up",
    "serve": "formulary_catalog.cli.serve",
    "migrate": "formulary_catalog.cli.migrate",
    "stdio": "formulary_catalog.cli.stdio",
    "search": "formulary_catalog.cli.search",
    "show": "formulary_catalog.cli.show",
    "list": "formulary_catalog.cli.listing",
    "validate": "formulary_catalog.cli.validate",
    "doctor": "formulary_catalog.cli.doctor",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name]).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FormularyError as error:
            _report(error, ctx=ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="formulary")
def main() -> None:
    """A catalog of remediation workflows for Kubernetes, searched by agents under the constraints of the incident.

    \b
    Start with:
      formulary up                           a server with the starter catalog
      formulary search "OOMKilled critical"  in another terminal

    Settings come from flags, then FORMULARY_* variables, then defaults. Exit codes: 0 done or found, 1 nothing found
    or invalid, 2 used wrongly, 3 something needed is not available.
    """


def _report(error: FormularyError, *, ctx: click.Context) -> NoReturn:
    from formulary_catalog.cli.terminal import plain

    message = " ".join(plain(str(error)).split())
    if wants_json(ctx):
        click.echo(json.dumps({"error": {"code": error.rpc_code, "message": message}}, ensure_ascii=False))
    click.echo(f"formulary: {message}", err=True)
    ctx.exit(error.exit_code)
