"""The group of all commands: each is imported when it is needed, and every expected error ends in one line."""

import json
from importlib import import_module
from typing import Any, NoReturn

import click

from formulary_catalog import __version__
from formulary_catalog.cli.options import COMMAND, Suggesting
from formulary_catalog.cli.wording import as_typed, with_close_options
from formulary_catalog.errors import FormularyError, InvalidInput, UnknownDocument, UnknownWorkflow

_JSON = "formulary.json"
_MODULES = {
    "up": "up",
    "demo": "up",
    "serve": "serve",
    "migrate": "database",
    "stdio": "stdio",
    "search": "catalog.workflows",
    "show": "catalog.workflows",
    "list": "catalog.browsing",
    "select": "catalog.workflows",
    "related": "catalog.browsing",
    "find": "catalog.browsing",
    "impact": "catalog.browsing",
    "stats": "catalog.browsing",
    "explain": "catalog.explaining",
    "coverage": "catalog.covering",
    "stale": "catalog.covering",
    "duplicates": "catalog.covering",
    "query": "catalog.analytics",
    "tables": "catalog.analytics",
    "docs": "knowledge.documents",
    "runbooks": "knowledge.runbooks",
    "invoke": "runs",
    "invocation": "runs",
    "console": "console",
    "approvals": "runs",
    "approve": "runs",
    "reject": "runs",
    "governance": "governance.commands",
    "halt": "governance.halt",
    "resume": "governance.halt",
    "validate": "catalog.validating",
    "draft": "catalog.authoring",
    "test": "catalog.authoring",
    "export": "catalog.skills",
    "trace": "audit.commands",
    "reembed": "database",
    "doctor": "doctor",
}
"""Where each command is: `NAME_command` of a module in this package."""


class _Commands(Suggesting):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"formulary_catalog.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Looks for `--json` as well: where arguments are wrong, the command's own options are never read."""
        ctx.meta[_JSON] = "--json" in args
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            said = with_close_options(error) if isinstance(error, click.NoSuchOption) else error
            _print_json(said.format_message(), code=InvalidInput.rpc_code, ctx=ctx)
            raise said from None
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
    from formulary_catalog.runtime.terminal import plain

    message = " ".join(plain(_for_people(error, command=ctx.meta.get(COMMAND))).split())
    _print_json(message, code=error.rpc_code, ctx=ctx)
    click.echo(f"formulary: {message}", err=True)
    ctx.exit(error.exit_code)


def _for_people(error: FormularyError, *, command: click.Command | None) -> str:
    """The message in the words of the command."""
    if isinstance(error, UnknownWorkflow):
        hint = f"did you mean {' or '.join(error.nearest)}?" if error.nearest else "`formulary list` shows all"
        return f"there is no workflow {error.reference!r} that may be used here; {hint}"
    if isinstance(error, UnknownDocument):
        hint = f"did you mean {' or '.join(error.nearest)}?" if error.nearest else "`formulary docs search` finds some"
        return f"there is no document {error.reference!r} that may be read here; {hint}"
    field = error.field if isinstance(error, InvalidInput) else ""
    return as_typed(str(error), command=command, field=field)


def _print_json(message: str, *, code: int, ctx: click.Context) -> None:
    """The error for a program that reads standard output, if the command was called with `--json`."""
    if ctx.meta.get(_JSON):
        click.echo(json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False))
