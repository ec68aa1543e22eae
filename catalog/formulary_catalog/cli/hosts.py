"""What a host name says about who can reach it."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.casefold() == "localhost"
