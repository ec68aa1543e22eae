"""Where a server listens: which addresses are loopback, who may be let in, whether the port is free."""

import errno
import socket
from contextlib import closing
from ipaddress import ip_address

from formulary_catalog.errors import StartupError
from formulary_catalog.settings import Settings

DATABASE_HEADER = "X-Formulary-Database"
"""Of `/readyz`, the same for all servers of one database: `formulary doctor` compares it with the one it looks at."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def check_listening(settings: Settings, *, authenticated: bool = False) -> None:
    """Check the address that is to be served; `authenticated` where callers have to prove who they are.

    Raises:
        StartupError: it is open to anybody and `insecure` does not say so, or the port is in use.
    """
    if not authenticated and not settings.insecure and not is_loopback(settings.host):
        raise StartupError(
            f"{settings.host} is open to other machines and there is no authentication; listen on 127.0.0.1, or accept "
            "that anybody who can reach it can search with --insecure"
        )
    if settings.port:
        _check_port(settings)


def address(settings: Settings, *, port: int, tls: bool = False) -> str:
    """The base URL of the server that listens on this port."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if tls else 'http'}://{host}:{port}"


def _check_port(settings: Settings) -> None:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with closing(socket.socket(family, kind, protocol)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise StartupError(_refusal(settings, error)) from error


def _refusal(settings: Settings, error: OSError) -> str:
    place = f"port {settings.port} on {settings.host}"
    if error.errno != errno.EADDRINUSE:
        return f"{place} cannot be used ({error.strerror}); choose another with --port or --host"
    holder = _holder(settings.port)
    stop = f", or stop process {holder}" if holder else ""
    return f"{place} is in use; choose another with --port or FORMULARY_PORT{stop}"


def _holder(port: int) -> int | None:
    """The process that listens on the port, where the system says which."""
    import psutil  # slow, and rarely needed

    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return None
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            return connection.pid
    return None
