"""A proxy in front of the console that signs people in, and is believed who they are.

It proves itself by a secret in a header of its own, which it alone knows. Without the secret the headers that name a
user are texts of a stranger. `visitor.Door` asks for it.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import Headers

from formulary_catalog.errors import NotAuthenticated, StartupError

SECRET = "x-formulary-proxy-secret"
USER, GROUPS = "x-forwarded-user", "x-forwarded-groups"
"""As oauth2-proxy names them; groups are separated by commas."""
MIN_SECRET = 32
_MAX_NAME = 256
_MAX_GROUPS = 200


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """What the proxy has to know, and how its headers are read."""

    _secret: bytes = field(repr=False)

    @classmethod
    def load(cls, path: Path) -> "TrustedProxy":
        """The proxy whose secret is in a file.

        Raises:
            StartupError: the file cannot be read, or what it holds is too short to be a secret.
        """
        try:
            secret = path.read_bytes().strip()
        except OSError as error:
            raise StartupError(
                f"FORMULARY_CONSOLE_PROXY_SECRET_FILE is {str(path)!r}, which cannot be read: {error.strerror}"
            ) from error
        if len(secret) < MIN_SECRET:
            raise StartupError(
                f"FORMULARY_CONSOLE_PROXY_SECRET_FILE is {str(path)!r}, which holds {len(secret)} bytes; a secret has "
                f"{MIN_SECRET} or more: make one with `openssl rand -base64 32`"
            )
        return cls(secret)

    def sent(self, headers: Headers) -> bool:
        """Whether the request claims to come from the proxy."""
        return SECRET in headers

    def user_of(self, headers: Headers) -> tuple[str, Sequence[str]]:
        """User and groups that the proxy names.

        Raises:
            NotAuthenticated: the secret is not the proxy's, or the headers name nobody.
        """
        # One of each: another one may come from the browser, past a proxy that appends.
        secrets, users, given = (headers.getlist(name) for name in (SECRET, USER, GROUPS))
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0].encode("latin-1"), self._secret):
            raise NotAuthenticated("the proxy did not prove itself: its secret is not that of this server")
        if len(users) != 1 or not _is_name(users[0]):
            raise NotAuthenticated(
                f"the proxy names no user; have it send {USER} once, with a name of 1 to {_MAX_NAME} characters"
            )
        if "," in users[0]:  # as a proxy joins its own header with that of a browser
            raise NotAuthenticated(
                f"{USER} holds a comma, as if it were sent twice; have the proxy replace what browsers send, and name "
                "users without a comma"
            )
        if len(given) > 1:
            raise NotAuthenticated(f"the proxy sends {GROUPS} {len(given)} times; have it replace what browsers send")
        groups = [each.strip() for value in given for each in value.split(",") if each.strip()]
        if len(groups) > _MAX_GROUPS or not all(map(_is_name, groups)):
            raise NotAuthenticated(
                f"the proxy names {len(groups)} groups; at most {_MAX_GROUPS} are taken, each of 1 to {_MAX_NAME} "
                "characters; have it pass fewer"
            )
        return users[0], groups


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _MAX_NAME and text.isprintable() and text == text.strip()
