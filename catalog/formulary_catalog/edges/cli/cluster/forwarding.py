"""The way from a laptop to the server in a cluster: kubectl forwards a port, and makes the token to send there.

`console` and `plugin` call it. What the kubeconfig holds stays with kubectl: the server gets a token that is made for
it alone, of a ServiceAccount for which this person may create tokens.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import IO, Any

import click
from click.core import ParameterSource

from formulary_catalog.errors import StartupError, Unavailable

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")
_ACCOUNT = re.compile(r"([a-z0-9-]+)/([a-z0-9.-]+)")
_PROTOCOL = """jsonpath={.spec.ports[?(@.name=="http")].appProtocol}"""
"""`https` where the server has a certificate; the chart says so."""
HTTPS = "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServer:
    """A server in a cluster, and the ServiceAccount as which it is asked; empty for none."""

    namespace: str
    service: str
    service_account: str
    audience: str
    context: str

    def described(self) -> str:
        """Which server this is, for people; where no context is named, that of the kubeconfig."""
        context = self.context
        if not context:
            asked = [*self._kubectl(), "config", "current-context"]
            found = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            context = found.stdout.strip()
        of_context = f" of context {context}" if context else ""
        return f"service {self.service} in {self.namespace}{of_context}"

    def protocol(self) -> str:
        """How it is spoken to: `http` or `https`.

        Raises:
            StartupError, Unavailable: there is no kubectl, or it failed.
        """
        asked = ["get", "service", self.service, f"--namespace={self.namespace}", "--output", _PROTOCOL]
        return _output([*self._kubectl(), *asked]) or "http"

    def token(self) -> str:
        """A token of the ServiceAccount for the server, valid for an hour; empty where none is named.

        Raises:
            StartupError, Unavailable: there is no kubectl, or it failed.
        """
        if not self.service_account:
            return ""
        named = _ACCOUNT.fullmatch(self.service_account)
        if named is None:
            raise click.BadParameter(f"{self.service_account!r} is not NAMESPACE/NAME", param_hint="--service-account")
        namespace, name = named.groups()
        asked = ["create", "token", name, f"--namespace={namespace}", f"--audience={self.audience}", "--duration=1h"]
        return _output([*self._kubectl(), *asked])

    @contextmanager
    def forwarded(self) -> Iterator[tuple[str, IO[str]]]:
        """A free port of loopback that leads to the server, and what kubectl prints while it forwards it.

        Raises:
            StartupError, Unavailable: there is no kubectl, or it failed.
        """
        way = ["port-forward", f"--namespace={self.namespace}", "--address=127.0.0.1", f"service/{self.service}"]
        with subprocess.Popen([*self._kubectl(), *way, ":http"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                matched = _FORWARDING.match(process.stdout.readline())
                if matched is None:
                    raise Unavailable("kubectl forwards no port; its message is above. Check --namespace and --service")
                yield matched[1], process.stdout
            finally:
                process.terminate()

    def _kubectl(self) -> Sequence[str]:
        if (found := shutil.which("kubectl")) is None:
            raise StartupError("there is no kubectl on the PATH; install it, or name an address of the server")
        return [found, *([f"--context={self.context}"] if self.context else [])]


def typed_parameters(context: click.Context) -> list[str]:
    """The parameters of a command that a person gave on the command line."""
    return [name for name in context.params if is_typed(context, name)]


def is_typed(context: click.Context, name: str) -> bool:
    """Whether a person gave a parameter on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that name a server in a cluster, handed on as `server`; one that is typed wins over `ctx.obj`."""

    @wraps(command)
    def with_server(
        *, namespace: str, service: str, service_account: str, audience: str, context: str, **others: Any
    ) -> None:
        server = ClusterServer(
            namespace=namespace,
            service=service,
            service_account=service_account,
            audience=audience,
            context=context,
        )
        current = click.get_current_context()
        if (named_before := current.find_object(ClusterServer)) is not None:
            typed = {name: getattr(server, name) for name in typed_parameters(current) if hasattr(server, name)}
            server = replace(named_before, **typed)
        command(server=server, **others)

    options = [
        click.option(
            "--namespace", "-n", default="formulary", show_default=True, metavar="NAME", help="Namespace of Formulary."
        ),
        click.option(
            "--service", default="formulary", show_default=True, metavar="NAME", help="Service of its server."
        ),
        click.option(
            "--service-account",
            metavar="NAMESPACE/NAME",
            default="",
            envvar="FORMULARY_SERVICE_ACCOUNT",
            help="ServiceAccount to create a token for, valid for an hour. You have its rights. "
            "[FORMULARY_SERVICE_ACCOUNT]",
        ),
        click.option("--audience", default="formulary", show_default=True, help="Audience of the token."),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig."),
    ]
    decorated: Callable[..., None] = with_server
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _output(program: Sequence[str]) -> str:
    """What kubectl prints. Its errors go to the terminal, where it may also ask a person to sign in.

    Raises:
        Unavailable: it failed.
    """
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unavailable("kubectl failed; its message is above. Check --context, --namespace and --service")
    return done.stdout.strip()
