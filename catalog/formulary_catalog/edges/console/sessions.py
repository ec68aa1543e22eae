"""Sessions of people who pasted a token: the token, sealed, in a cookie of their browser.

Sealed rather than kept here, because requests of one browser reach all replicas of a server. They share the key: it is
derived from the input keys, which every replica has. Without those, a process has a key of its own. A sealed session
proves nothing by itself: its token is checked with each request, so that a revoked one ends it. That somebody signed
out is in the database, where every replica looks.

`__Host-` is a promise that browsers hold: who sets such a cookie is this very host, over HTTPS. So nobody else can put
one in, neither a page of a sibling domain nor somebody on the way of a plain connection. Over plain HTTP browsers
refuse it. There, people come by loopback alone, and the cookie has a plain name. A cookie with the other name is not
looked at.
"""

import base64
import json
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from formulary_catalog.domain.console_address import CONSOLE_PATH
from formulary_catalog.edges.http.middleware import LOOPBACK_NAMES
from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.ended_sessions import EndedSessions

SESSION_SECONDS = 4 * 60 * 60
"""Half a working day; most tokens end earlier."""
_REMEMBERED_SECONDS = SESSION_SECONDS + 10 * 60
"""How long an ended session is; more than a session lasts, since the clocks of replicas differ."""
_MAX_COOKIE = 3800
"""Browsers keep 4,096 bytes of a cookie with its name and attributes."""
_PURPOSE = b"formulary console session"
_KEY_BYTES = 32
SESSION_COOKIE = "formulary_session"
VISIT_COOKIE = "formulary_visit"
"""A random value in browsers that have no session; like a session, it makes forms theirs."""
_OF_THIS_HOST = "__Host-"
_HTTPS = "https"


@dataclass(frozen=True, slots=True)
class Session:
    """A session that is not over. `id` says nothing about its token."""

    id: str
    token: str = field(repr=False)

    @property
    def authorization(self) -> str:
        """The header that its token would be sent in."""
        return f"Bearer {self.token}"


class Sessions:
    """Seals and opens sessions. One that was ended is not opened again, by this replica or another."""

    def __init__(self, ended: EndedSessions, *, keys: Sequence[bytes] = ()) -> None:
        """The first key seals, every one opens, so that keys can be rotated."""
        self._ended = ended
        derived = [_derived(key) for key in keys] or [secrets.token_bytes(_KEY_BYTES)]
        self._box = MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])

    def begin(self, token: str) -> str:
        """The value of the cookie of a new session.

        Raises:
            InvalidInput: no cookie can hold the token.
        """
        content = json.dumps({"id": secrets.token_urlsafe(16), "token": token})
        cookie = self._box.encrypt(zlib.compress(content.encode())).decode()
        if len(cookie) > _MAX_COOKIE:
            raise InvalidInput(
                f"the token has {len(token)} characters, more than a cookie can hold; use a token without long lists "
                "of groups, or a proxy that signs in and passes the token",
                field="token",
            )
        return cookie

    async def open(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it is over, ended, or sealed by somebody else.

        Raises:
            Unavailable: the database does not say whether it was ended.
        """
        session = self._unsealed(cookie)
        return session if session is not None and not await self._ended.has(session.id) else None

    async def end(self, cookie: str) -> None:
        """Refuse the session from now on.

        Raises:
            Unavailable: the database does not answer, so that the session may go on.
        """
        if (session := self._unsealed(cookie)) is not None:
            await self._ended.add(session.id, kept_seconds=_REMEMBERED_SECONDS)

    def _unsealed(self, cookie: str) -> Session | None:
        try:
            content = self._box.decrypt(cookie.encode(), ttl=SESSION_SECONDS)
        except InvalidToken:
            return None
        return Session(**json.loads(zlib.decompress(content)))


def _derived(key: bytes) -> bytes:
    """A key for sessions alone: what seals input of runs seals nothing else."""
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_PURPOSE).derive(key)


def cookie_of(connection: HTTPConnection, name: str) -> str:
    """The value of a cookie that was set for connections like this one; empty if there is none."""
    return connection.cookies.get(_full_name(connection, name), "")


def set_cookie(response: Response, name: str, value: str, *, request: Request, seconds: int | None = None) -> None:
    """Have the browser keep a cookie: for so many seconds, or until it is closed."""
    is_plain = _is_plain(request)
    response.set_cookie(
        _full_name(request, name),
        value,
        max_age=seconds,
        path=_path(is_plain=is_plain),
        secure=not is_plain,
        httponly=True,
        samesite="strict",
    )


def forget_cookie(response: Response, name: str, *, request: Request) -> None:
    """Have the browser forget a cookie."""
    is_plain = _is_plain(request)
    response.delete_cookie(
        _full_name(request, name),
        path=_path(is_plain=is_plain),
        secure=not is_plain,
        httponly=True,
        samesite="strict",
    )


def _full_name(connection: HTTPConnection, name: str) -> str:
    return name if _is_plain(connection) else _OF_THIS_HOST + name


def _path(*, is_plain: bool) -> str:
    """`__Host-` takes no other path than `/`. Servers of one loopback address share cookies, so there it is ours."""
    return CONSOLE_PATH if is_plain else "/"


def _is_plain(connection: HTTPConnection) -> bool:
    """Whether the browser speaks plain HTTP to a loopback address.

    So a proxy need not say that it speaks HTTPS, if it passes the name of the host. Who lies about HTTPS gets a cookie
    that its own browser refuses.
    """
    schemes = (connection.url.scheme, connection.headers.get("x-forwarded-proto", ""))
    return connection.url.hostname in LOOPBACK_NAMES and _HTTPS not in schemes
