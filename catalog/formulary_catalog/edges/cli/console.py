"""`formulary console`: the way from a laptop to the console in a cluster, also as `kubectl formulary console`."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import click

from formulary_catalog.errors import StartupError, Unavailable

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")
_ACCOUNT = re.compile(r"([a-z0-9-]+)/([a-z0-9.-]+)")
_PROTOCOL = """jsonpath={.spec.ports[?(@.name=="http")].appProtocol}"""
"""`https` where the server has a certificate; the chart says so."""


@click.command("console")
@click.option(
    "--namespace", "-n", default="formulary", show_default=True, metavar="NAME", help="Namespace of Formulary."
)
@click.option("--service", default="formulary", show_default=True, metavar="NAME", help="Service of its server.")
@click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    default="",
    help="ServiceAccount to create a token for, valid for an hour. You have its rights in the console.",
)
@click.option("--audience", default="formulary", show_default=True, help="Audience of the token.")
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.")
def console_command(*, namespace: str, service: str, service_account: str, audience: str, context: str) -> None:
    """Forward a port to the console of a cluster, until Ctrl-C.

    Needs kubectl and the right to forward a port. Without a ServiceAccount, sign in with a token of your own.

    \b
    Examples:
      formulary console --service-account team-shop/oncall
      kubectl formulary console --namespace formulary --context production
    """
    kubectl = [_kubectl(), *([f"--context={context}"] if context else [])]
    token = _token(kubectl, service_account, audience=audience) if service_account else ""
    protocol = _output([*kubectl, "get", "service", service, f"--namespace={namespace}", "--output", _PROTOCOL])
    with _forwarded(kubectl, namespace=namespace, service=service) as (port, output):
        click.echo(f"console: {protocol or 'http'}://127.0.0.1:{port}/console")
        if token:
            click.echo(f"\nsign in as {service_account} with this token, which is valid for an hour:\n\n{token}\n")
        try:
            click.echo("Ctrl-C closes it")
            for _ in output:  # a line for each connection: nobody's, but they must not fill the pipe
                pass
        except KeyboardInterrupt:
            return
    raise Unavailable("kubectl no longer forwards the port; run the command again")


def _kubectl() -> str:
    """Raises StartupError: it is not installed."""
    if (found := shutil.which("kubectl")) is None:
        raise StartupError("there is no kubectl on the PATH; install it, or open the Service of the server another way")
    return found


def _token(kubectl: Sequence[str], account: str, *, audience: str) -> str:
    named = _ACCOUNT.fullmatch(account)
    if named is None:
        raise click.BadParameter(f"{account!r} is not NAMESPACE/NAME", param_hint="--service-account")
    namespace, name = named.groups()
    return _output(
        [*kubectl, "create", "token", name, f"--namespace={namespace}", f"--audience={audience}", "--duration=1h"]
    )


def _output(program: Sequence[str]) -> str:
    """What kubectl prints. Its errors go to the terminal, where it may also ask a person to sign in.

    Raises:
        Unavailable: it failed.
    """
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unavailable("kubectl failed; its message is above. Check --context, --namespace and --service")
    return done.stdout.strip()


@contextmanager
def _forwarded(kubectl: Sequence[str], *, namespace: str, service: str) -> Iterator[tuple[str, IO[str]]]:
    """A free port of loopback that leads to the Service, and what kubectl prints while it forwards it."""
    program = [*kubectl, "port-forward", f"--namespace={namespace}", "--address=127.0.0.1", f"service/{service}"]
    with subprocess.Popen([*program, ":http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            matched = _FORWARDING.match(process.stdout.readline())
            if matched is None:
                raise Unavailable("kubectl forwards no port; its message is above. Check --namespace and --service")
            yield matched[1], process.stdout
        finally:
            process.terminate()
