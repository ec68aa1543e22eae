"""Which Host and Origin headers are answered: the guard against DNS rebinding (DESIGN section 8)."""

import re
from collections.abc import Iterable
from ipaddress import ip_address

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?:https?://)?(?:\[([^\]\s]+)\]|([^:/@?#\\\s\[\]]+))(?::\d{1,5})?", re.IGNORECASE)


class HostRule:
    """Loopback names, the names from the settings and the address listened on; ports do not matter."""

    def __init__(self, *, allowed: Iterable[str], listening_on: str) -> None:
        names = {name.casefold().strip("[]") for name in (*allowed, listening_on)}
        self._names = _LOOPBACK_NAMES | {name for name in names if name and not _is_wildcard(name)}

    def allows_host(self, header: str) -> bool:
        """Whether a `Host` header, with or without a port, names this server."""
        return _hostname(header) in self._names

    def allows_origin(self, header: str) -> bool:
        """Whether a browser page of this `Origin` may call; an empty header means no browser page."""
        return not header or _hostname(header) in self._names


def _hostname(authority: str) -> str:
    matched = _AUTHORITY.fullmatch(authority)
    return (matched.group(1) or matched.group(2)).casefold() if matched else ""


def _is_wildcard(name: str) -> bool:
    try:
        return ip_address(name).is_unspecified
    except ValueError:
        return False
