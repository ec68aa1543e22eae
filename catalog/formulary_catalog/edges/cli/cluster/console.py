"""`formulary console`: the way from a laptop to the console in a cluster, also as `kubectl formulary console`."""

from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.cluster.forwarding import cluster_options
from formulary_catalog.errors import Unavailable

if TYPE_CHECKING:
    from formulary_catalog.edges.cli.cluster.forwarding import ClusterServer


@click.command("console")
@cluster_options
def console_command(*, server: "ClusterServer") -> None:
    """Forward a port to the console of a cluster, until Ctrl-C.

    Needs kubectl and the right to forward a port. Without a ServiceAccount, sign in with a token of your own.

    \b
    Examples:
      formulary console --service-account team-shop/oncall
      kubectl formulary console --namespace formulary --context production
    """
    token, protocol = server.token(), server.protocol()
    with server.forwarded() as (port, output):
        click.echo(f"console: {protocol}://127.0.0.1:{port}/console")
        if token:
            who = server.service_account
            click.echo(f"\nsign in as {who} with this token, which is valid for an hour:\n\n{token}\n")
        try:
            click.echo("Ctrl-C closes it")
            for _ in output:  # a line for each connection: nobody's, but they must not fill the pipe
                pass
        except KeyboardInterrupt:
            return
    raise Unavailable("kubectl no longer forwards the port; run the command again")
