"""Sessions of people who pasted a token: the token, sealed, in a cookie of their browser.

Sealed rather than kept here, because requests of one browser reach all replicas of a server. They share the key: it is
derived from the input keys, which every replica has. Without those, a process has a key of its own. A sealed session
proves nothing by itself: its token is checked with each request, so that a revoked one ends it. That somebody signed
out is in the database, where every replica looks.
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
