"""`formulary console`: the way from a laptop to the console in a cluster, also as `kubectl formulary console`."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from formulary_catalog.errors import StartupError, Unavailable

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")
_ACCOUNT = re.compile(r"([a-z0-9-]+)/([a-z0-9.-]+)")


@click.command("console")
@click.option("--namespace", "-n", default="formulary", show_default=True, metavar="NAME", help="Where Formulary is.")
@click.option("--service", default="formulary", show_default=True, metavar="NAME", help="Service of its server.")
@click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    default="",
    help="ServiceAccount to make a token of, valid for an hour. Its rights are yours in the console.",
)
@click.option("--audience", default="formulary", show_default=True, help="Audience of the token.")
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.")
def console_command(*, namespace: str, service: str, service_account: str, audience: str, context: str) -> None:
    """Open a way to the console of a cluster, until Ctrl-C.

    Needs kubectl and the right to forward a port. Without a ServiceAccount, sign in with a token of your own.

    \b
    Examples:
      formulary console --service-account team-shop/oncall
      kubectl formulary console --namespace formulary --context production
    """
    kubectl = [_kubectl(), *([f"--context={context}"] if context else [])]
    token = _token(kubectl, service_account, audience=audience) if service_account else ""
    with _forwarded(kubectl, namespace=namespace, service=service) as (port, forwarding):
        click.echo(f"console: http://127.0.0.1:{port}/console")
        if token:
            click.echo(f"\nsign in as {service_account} with this token, which is valid for an hour:\n\n{token}\n")
        try:
            click.echo("Ctrl-C closes it")
            for _ in forwarding.stdout or ():
                pass  # a line for each connection, which kubectl would wait with once nobody reads them
            code = forwarding.wait()
        except KeyboardInterrupt:
            return
    raise Unavailable(f"kubectl port-forward ended with {code}; run the command again")


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
    done = subprocess.run(
        [*kubectl, "create", "token", name, f"--namespace={namespace}", f"--audience={audience}", "--duration=1h"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"kubectl made no token: {_last_line(done.stderr)}")
    return done.stdout.strip()


@contextmanager
def _forwarded(
    kubectl: Sequence[str], *, namespace: str, service: str
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A free port of loopback that leads to the Service, and the program that forwards it."""
    program = [*kubectl, "port-forward", f"--namespace={namespace}", "--address=127.0.0.1", f"service/{service}"]
    with subprocess.Popen([*program, ":http"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield _port(process), process
        finally:
            process.terminate()


def _port(forwarding: "subprocess.Popen[str]") -> str:
    printed = ""
    for line in forwarding.stdout or ():
        if (matched := _FORWARDING.match(line)) is not None:
            return matched[1]
        printed += line
    raise Unavailable(f"kubectl forwards no port: {_last_line(printed)}; check --context, --namespace and --service")


def _last_line(printed: str) -> str:
    """The error of kubectl, without the log of its libraries before."""
    return (printed.strip().splitlines() or ["it does not say why"])[-1]
