"""The group of all commands: each is imported when it is needed, and every expected error ends in one line."""

import json
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from formulary_catalog import __version__
from formulary_catalog.edges.cli.options import COMMAND, Suggesting
from formulary_catalog.edges.cli.sources import SOURCE, report_source
from formulary_catalog.edges.cli.wording import as_typed, with_close_options
from formulary_catalog.errors import FormularyError, InvalidInput, UnknownDocument, UnknownWorkflow

_JSON = "formulary.json"
_VERSION = "Show the version, the schema of its database and its embedding model, and exit."
_INDENT = 6
_INTERRUPTED = 130
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_GROUPS = {
    "Start": {"up": "up", "demo": "demo", "doctor": "doctor"},
    "Find a remedy": {
        "search": "catalog.workflows",
        "show": "catalog.workflows",
        "list": "catalog.browsing",
        "find": "catalog.browsing",
        "related": "catalog.browsing",
        "explain": "catalog.explaining",
        "context": "catalog.context",
        "incident": "catalog.incident",
        "docs": "knowledge.documents",
    },
    "Run it": {
        "select": "catalog.workflows",
        "invoke": "runs",
        "invocation": "runs",
        "approvals": "runs",
        "approve": "runs",
        "reject": "runs",
        "halt": "governance.halt",
        "resume": "governance.halt",
        "console": "cluster.console",
    },
    "Write workflows": {
        "new": "authoring.manifests",
        "draft": "authoring.drafting",
        "validate": "authoring.validating",
        "test": "authoring.drafting",
        "who-sees": "authoring.manifests",
        "impact": "catalog.browsing",
        "export": "catalog.skills",
    },
    "Look after the catalog": {
        "coverage": "catalog.covering",
        "stale": "catalog.covering",
        "duplicates": "catalog.covering",
        "stats": "catalog.browsing",
        "query": "catalog.analytics",
        "tables": "catalog.analytics",
        "runbooks": "knowledge.runbooks",
        "governance": "governance.commands",
        "trace": "audit.commands",
    },
    "Operate": {"serve": "serve", "stdio": "stdio", "migrate": "database", "reembed": "database"},
}
"""The commands as help groups them, and where each is: `NAME_command` of a module in this package."""
_MODULES = {name: module for commands in _GROUPS.values() for name, module in commands.items()}


class Commands(Suggesting):
    """All commands in groups; an error that is expected ends in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"formulary_catalog.edges.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Looks for `--json` as well: where arguments are wrong, the command's own options are never read."""
        ctx.meta[_JSON] = "--json" in args
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        room = formatter.width - max(map(len, _MODULES)) - _INDENT
        for title, names in _GROUPS.items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            with formatter.section(title):
                formatter.write_dl([(name, each.get_short_help_str(room)) for name, each in commands if each])

    def invoke(self, ctx: click.Context) -> Any:
        ctx.call_on_close(lambda: report_source(ctx))
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
            return answer
        except BrokenPipeError:  # the reader has enough, as `| head`: nothing is wrong
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit()
        except KeyboardInterrupt:
            click.echo("formulary: stopped", err=True)
            ctx.exit(_INTERRUPTED)
        except click.UsageError as error:
            said = with_close_options(error) if isinstance(error, click.NoSuchOption) else error
            _print_json(said.format_message(), code=InvalidInput.rpc_code, ctx=ctx)
            raise said from None
        except FormularyError as error:
            ctx.meta.pop(SOURCE, None)  # an error is one line, which names what it is about
            _report(error, ctx=ctx)


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    """What a report of a problem needs."""
    if not wanted:
        return
    from formulary_catalog.embedding.model import BUNDLED, BUNDLED_NAME, BUNDLED_REVISIONS
    from formulary_catalog.store.database.migrate import HEAD

    click.echo(f"formulary, version {__version__}")
    click.echo(f"schema {HEAD}, model {BUNDLED_NAME}@{BUNDLED_REVISIONS[BUNDLED]}")
    ctx.exit()


version_option = click.option(
    "--version", is_flag=True, callback=_print_version, expose_value=False, is_eager=True, help=_VERSION
)


@click.group(cls=Commands, context_settings=CONTEXT_SETTINGS)
@version_option
def main() -> None:
    """A catalog of remediation workflows for Kubernetes, searched by agents under the constraints of the incident.

    \b
    Start with:
      formulary up                           a server with the starter catalog
      formulary search "OOMKilled critical"  in another terminal

    Settings come from flags, then FORMULARY_* variables, then defaults. Exit codes: 0 done or found, 1 nothing found
    or invalid, 2 used wrongly, 3 something needed is not available, 130 stopped before it was done.
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
