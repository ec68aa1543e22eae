"""`kubectl formulary`: every command, asked of the server in the cluster of the kubeconfig.

A command that asks a server finds it under a port that kubectl forwards while it runs, with a token of the named
ServiceAccount. Commands that ask none, and those that name a server or a database themselves, run as `formulary` does.
"""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from threading import Thread
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.cluster.forwarding import HTTPS, cluster_options
from formulary_catalog.edges.cli.main import CONTEXT_SETTINGS, Commands
from formulary_catalog.edges.cli.options import COMMAND
from formulary_catalog.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from formulary_catalog.edges.cli.cluster.forwarding import ClusterServer

_TYPED = "formulary.typed"
_NAMES_ANOTHER = ("--url", "--database-url", "--data-dir", "--help", "-h")


class _Plugin(Commands):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[_TYPED] = args
        return super().resolve_command(ctx, args)


@click.group(cls=_Plugin, context_settings=CONTEXT_SETTINGS)
@cluster_options
@click.pass_context
def plugin(ctx: click.Context, *, server: "ClusterServer") -> None:
    """Formulary in the cluster of your kubeconfig: every command of `formulary`.

    Forwards a port to the server and asks as a ServiceAccount for which you may create tokens, or with the token in
    FORMULARY_TOKEN. Nothing else of your kubeconfig reaches the server.

    \b
    Examples:
      kubectl formulary --service-account team-shop/oncall search "OOMKilled critical"
      kubectl formulary --context production approvals
      kubectl formulary trace show rr-2026-0042
    """
    ctx.default_map = {"console": asdict(server)}
    if _asks_a_server(ctx.meta[COMMAND], typed=ctx.meta[_TYPED]):
        ctx.with_resource(_reached(server))


def _asks_a_server(command: click.Command, *, typed: list[str]) -> bool:
    """Whether a command asks a server that neither it nor the environment names."""
    if "FORMULARY_URL" in os.environ or any(word.partition("=")[0] in _NAMES_ANOTHER for word in typed):
        return False
    subcommands = command.commands.values() if isinstance(command, click.Group) else [command]
    return any(each.name == "url" for subcommand in subcommands for each in subcommand.params)


@contextmanager
def _reached(server: "ClusterServer") -> Iterator[None]:
    """The server under a forwarded port, named in the environment, where commands look for it.

    Raises:
        InvalidInput: nobody is named as whom to ask.
        StartupError, Unavailable: kubectl failed, or the server has a certificate for another name than loopback.
    """
    token = os.environ.get("FORMULARY_TOKEN") or server.token()
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
        os.environ |= {"FORMULARY_URL": f"http://127.0.0.1:{port}", "FORMULARY_TOKEN": token}
        try:
            yield
        finally:
            os.environ.clear()
            os.environ |= before


def main() -> None:
    """What `kubectl formulary` runs."""
    plugin(prog_name="kubectl formulary")
