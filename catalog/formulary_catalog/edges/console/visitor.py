"""Who looks at a page: found out by the edge before anything else, read by pages.

Where the server asks for no credentials, everybody is the local caller. Elsewhere a request carries a bearer token, in
its `Authorization` header (a proxy that signs people in passes it) or in the session that the sign-in page began, or
it comes through a proxy that proves itself and names the user. Who has none of these is a stranger, without any right,
and is answered by the open pages alone.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection, Request
from starlette.types import Scope

from formulary_catalog.domain.access import Access, Caller, Right
from formulary_catalog.domain.console_address import CONSOLE_PATH, FAVICON_PATH
from formulary_catalog.edges.calls.caller import caller_of
from formulary_catalog.edges.calls.failures import Failure, failure_of
from formulary_catalog.edges.console.sessions import SESSION_COOKIE, VISIT_COOKIE, Sessions, cookie_of
from formulary_catalog.edges.http.authentication import Identification, Refusal
from formulary_catalog.edges.http.trusted_proxy import TrustedProxy
from formulary_catalog.errors import Unavailable

_FILES = f"{CONSOLE_PATH}/static/"
OPEN_PATHS = (_FILES, FAVICON_PATH, f"{CONSOLE_PATH}/sign-in", f"{CONSOLE_PATH}/sign-out")
_VISIT = re.compile(r"[\w-]{43}", re.ASCII)
_KEY = "formulary.visit"


class _Nothing:
    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        return False


_NOTHING: Access = _Nothing()
STRANGER = Caller(name="nobody", access=_NOTHING)
"""Who has shown no credentials, or none that prove anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who looks at a page.

    `csrf` is the token of its forms, `by_session` whether it can sign out here, and `failure` why its credentials were
    refused. `new_visit` is the value of a cookie that its browser has yet to get.
    """

    caller: Caller
    csrf: str = field(repr=False)
    by_session: bool = False
    failure: Failure | None = None
    new_visit: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.caller.name

    @property
    def is_stranger(self) -> bool:
        """Whether it may see nothing but the open pages."""
        return self.caller is STRANGER


@dataclass(frozen=True, slots=True)
class _Visit:
    by_session: bool = False
    failure: Failure | None = None


class Door:
    """Finds out who comes. It refuses nobody: routes of the console answer strangers with the way to sign in."""

    def __init__(
        self,
        identification: Identification,
        *,
        sessions: Sessions,
        asks: bool,
        audience: str,
        proxy: TrustedProxy | None = None,
    ) -> None:
        """`asks`: whether the server asks for credentials; `audience` is the one that tokens must be for.

        `proxy` is the one that is believed who a visitor is; None for none.
        """
        self._identification = identification
        self._proxy = proxy
        self.sessions, self.asks, self.audience = sessions, asks, audience

    async def of(self, scope: Scope) -> Caller:
        """The caller, by its credentials; the visit is noted in the scope."""
        connection = HTTPConnection(scope)
        if self.asks and self._proxy is not None and self._proxy.sent(connection.headers):
            return _noted(await self._identification.by_proxy(self._proxy, scope=scope), scope=scope)
        authorization, by_session = connection.headers.getlist("authorization"), False
        if self.asks and not authorization and not scope["path"].startswith(_FILES):
            try:
                session = await self.sessions.open(cookie_of(connection, SESSION_COOKIE))
            except Unavailable as error:
                return _noted(Refusal(failure=failure_of(error)), scope=scope, by_session=True)
            if session is not None:
                authorization, by_session = [session.authorization], True
        if self.asks and (not authorization or scope["path"].startswith(OPEN_PATHS)):
            scope[_KEY] = _Visit(by_session=by_session)
            return STRANGER
        caller = await self._identification.by(authorization, scope=scope)
        return _noted(caller, scope=scope, by_session=by_session)

    async def admit(self, token: str, *, scope: Scope) -> Caller | Refusal:
        """The caller whose token this is, or why it is nobody's."""
        return await self._identification.by([f"Bearer {token}"], scope=scope)


def _noted(caller: Caller | Refusal, *, scope: Scope, by_session: bool = False) -> Caller:
    if isinstance(caller, Refusal):
        scope[_KEY] = _Visit(by_session=by_session, failure=caller.failure)
        return STRANGER
    scope[_KEY] = _Visit(by_session=by_session)
    return caller


def visitor_of(request: Request) -> Visitor:
    """Who sent the request."""
    known: Visitor | None = getattr(request.state, "visitor", None)
    if known is None:
        known = request.state.visitor = _visitor(request)
    return known


def _visitor(request: Request) -> Visitor:
    visit: _Visit = request.scope.get(_KEY, _Visit())
    value = cookie_of(request, SESSION_COOKIE if visit.by_session else VISIT_COOKIE)
    is_known = visit.by_session or _VISIT.fullmatch(value) is not None
    if not is_known:
        value = secrets.token_urlsafe(32)
    return Visitor(
        caller=caller_of(request),
        csrf=_form_token(value),
        by_session=visit.by_session,
        failure=visit.failure,
        new_visit="" if is_known else value,
    )


def _form_token(cookie: str) -> str:
    """Known to the pages of who has the cookie, and says nothing about it. Any replica comes to the same."""
    digest = hmac.digest(cookie.encode(), b"formulary console form", hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
