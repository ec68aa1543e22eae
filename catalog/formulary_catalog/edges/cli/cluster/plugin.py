"""`kubectl formulary`: commands that ask a server ask the one in the cluster of the kubeconfig.

They find it under a port that kubectl forwards while they run, with a token of the named ServiceAccount. Commands that
ask none, and those that name a server or a database themselves, run as `formulary` does, and refuse a named cluster.
"""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.cluster.forwarding import HTTPS, cluster_options, is_typed, typed_parameters
from formulary_catalog.edges.cli.main import CONTEXT_SETTINGS, Commands, version_option
from formulary_catalog.edges.cli.options import COMMAND
from formulary_catalog.edges.cli.sources import name_source
from formulary_catalog.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from formulary_catalog.edges.cli.cluster.forwarding import ClusterServer

_TYPED = "formulary.typed"


class _Plugin(Commands):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[_TYPED] = args
        return super().resolve_command(ctx, args)


@click.group(cls=_Plugin, context_settings=CONTEXT_SETTINGS)
@version_option
@cluster_options
@click.pass_context
def plugin(ctx: click.Context, *, server: "ClusterServer") -> None:
    """Formulary in the cluster of your kubeconfig: the commands of `formulary`.

    For every command that asks a server, forwards a port to it and asks as a ServiceAccount for which you may create
    tokens, or with the token in FORMULARY_TOKEN, such as an ID token of your own. Nothing else of your
    kubeconfig reaches the server. All other commands work on this machine.

    \b
    Examples:
      kubectl formulary --service-account team-shop/oncall search "OOMKilled critical"
      kubectl formulary --context production approvals
      kubectl formulary trace show rr-2026-0042
    """
    ctx.obj = server
    asked = _asked(ctx)
    if asked is None or asked.command.name == "console":  # that takes `server` as it is
        return
    named = typed_parameters(ctx)
    if elsewhere := _asked_elsewhere(asked):
        if named:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in named)
            raise InvalidInput(f"{elsewhere}; leave out {options}", field="server")
    elif named or not os.environ.get("FORMULARY_URL"):
        ctx.with_resource(_reached(server, as_account="service_account" in named))


def _asked(ctx: click.Context) -> click.Context | None:
    """The command that runs, with what it was given; None where it shows its help, or there is none."""
    command, words = ctx.meta[COMMAND], list(ctx.meta[_TYPED])[1:]
    while isinstance(command, click.Group):
        name = next((word for word in words if not word.startswith("-")), "")
        if (found := command.get_command(ctx, name)) is None:
            return None
        command, words = found, words[words.index(name) + 1 :]
    context: click.Context = command.make_context(command.name, words, parent=ctx, resilient_parsing=True)
    showing_help = command.get_help_option(context)
    return None if showing_help is not None and is_typed(context, str(showing_help.name)) else context


def _asked_elsewhere(asked: click.Context) -> str:
    """Why a command asks no server that is found here; empty if it does ask it."""
    if all(each.name != "url" for each in asked.command.params):
        return f"`{asked.command.name}` asks no server"
    if asked.params.get("everything"):
        return f"`{asked.command.name} --all` asks no server"
    others = [name for name in ("url", "database_url", "data_dir") if is_typed(asked, name)]
    return f"--{others[0].replace('_', '-')} names what is asked" if others else ""


@contextmanager
def _reached(server: "ClusterServer", *, as_account: bool) -> Iterator[None]:
    """The server under a forwarded port, named in the environment, where commands look for it.

    It is asked as the ServiceAccount where that was typed, else with the token of the environment, if there is one.

    Raises:
        InvalidInput: nobody is named as whom to ask.
        StartupError, Unavailable: kubectl failed, or the server has a certificate for another name than loopback.
    """
    token = "" if as_account else os.environ.get("FORMULARY_TOKEN", "")
    token = token or server.token()
    if not token:
        raise InvalidInput(
            "--service-account is missing: name a ServiceAccount for which you may create tokens, such as "
            "team-shop/oncall, or put a token into FORMULARY_TOKEN",
            field="service_account",
        )
    if server.protocol() == HTTPS:
        raise Unavailable(
            f"the certificate of {server.namespace}/{server.service} is for other names than 127.0.0.1; name an "
            "address that it is for with FORMULARY_URL"
        )
    with server.forwarded() as (port, output):
        Thread(target=deque, args=(output, 0), daemon=True).start()  # a line for each connection fills the pipe
        before = dict(os.environ)
        url = f"http://127.0.0.1:{port}"
        name_source(url, server.described())
        os.environ |= {"FORMULARY_URL": url, "FORMULARY_TOKEN": token}
        try:
            yield
        finally:
            os.environ.clear()
            os.environ |= before


def main() -> None:
    """What `kubectl formulary` runs."""
    plugin(prog_name="kubectl formulary")
