"""Finding out who calls, before anything else of a call is looked at (DESIGN section 9).

`edges.http.middleware` asks it for each call, and the console for its visitors. Who checks a token is given: here is
what a server without one, behind a proxy or with counted refusals does.

MCP clients read how to sign in: `/mcp` is a resource that an OpenID provider protects (RFC 9728). The middleware
answers so where an issuer is set. Some clients drop the header that they were given once they see it: for them
`/mcp/token` is the same server and says nothing of it.

Systems that send alerts (section 15) have no right but to be heard at one path: each proves itself with the secret of
its source, not with a token of the cluster, before its body is read.
"""

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from formulary_catalog.domain.access import Access, Authenticator, Caller, Right
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.edges.calls.error_replies import MCP_PATH, WELL_KNOWN, error_reply
from formulary_catalog.edges.calls.failures import Failure, secret_failure_of
from formulary_catalog.edges.http.trusted_proxy import TrustedProxy
from formulary_catalog.errors import NotAuthenticated, Unavailable
from formulary_catalog.log import Throttle
from formulary_catalog.metrics import Metrics
from formulary_catalog.services.incidents import SIGNATURE_HEADER, AlertReceiving
from formulary_catalog.store.incident_sources import StoredSource

_CHECK = "token"
_CHALLENGE = 'Bearer realm="formulary"'
_NOT_IN_A_CHALLENGE = re.compile(r"[^ !#-\[\]-~]")
"""What RFC 6750, section 3 keeps out of an error description."""
_log = structlog.get_logger(__name__)
_METADATA_PATH = f"{WELL_KNOWN}oauth-protected-resource"
METADATA_PATHS = frozenset({_METADATA_PATH, f"{_METADATA_PATH}{MCP_PATH}"})
FIXED_HEADER_PATH = f"{MCP_PATH}/token"
"""Of clients that send one header always."""
MAX_ALERT_BYTES = 1024 * 1024
"""Of one message: Alertmanager sends all alerts of a group at once."""
_ALERTS_PATH = re.compile(r"/api/v1/incidents/([^/]+)/([^/]+)")
_SOURCE_KEY = "formulary.source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why nobody can be held to a request; `challenge` is the value of `WWW-Authenticate`, if it takes one."""

    failure: Failure
    challenge: str = ""


class Identification:
    """Says who sends a request, or why nobody can be held to it.

    A refusal leaves a line in the log, one of its kind in ten seconds, and no row in the database: strangers could fill
    both otherwise.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._throttle = Throttle()

    async def of(self, scope: Scope) -> Caller | Response:
        """The caller, or the refusal to send."""
        caller = await self.by(Headers(scope=scope).getlist("authorization"), scope=scope)
        if isinstance(caller, Caller):
            return caller
        failure = caller.failure
        return error_reply(
            path=scope["path"],
            status=failure.status,
            code=failure.code,
            message=failure.message,
            headers={"WWW-Authenticate": caller.challenge} if caller.challenge else None,
        )

    async def by(self, authorization: Sequence[str], *, scope: Scope) -> Caller | Refusal:
        """The caller of a request by these values of `Authorization`, wherever they come from."""
        address = (scope.get("client") or ("",))[0]
        return await self._found(
            self._authenticator.authenticate(authorization, address=address), scope=scope, is_given=any(authorization)
        )

    async def by_proxy(self, proxy: TrustedProxy, *, scope: Scope) -> Caller | Refusal:
        """The caller that a proxy names, if the proxy proves itself."""

        async def vouched() -> Caller:
            return await self._authenticator.vouched_for(*proxy.user_of(Headers(scope=scope)))

        return await self._found(vouched(), scope=scope, is_given=True)

    async def _found(self, found: Awaitable[Caller], *, scope: Scope, is_given: bool) -> Caller | Refusal:
        try:
            return await found
        except Exception as error:
            failure, challenge = secret_failure_of(error), ""
            if isinstance(error, NotAuthenticated):
                challenge = _challenge(error) if is_given else _CHALLENGE
        self._log(scope, status=failure.status, reason="internal error" if failure.unexpected else failure.message)
        return Refusal(failure=failure, challenge=challenge)

    def _log(self, scope: Scope, *, status: int, reason: str) -> None:
        count = self._throttle.admit((status, reason))
        if count:
            address = (scope.get("client") or ("",))[0]
            _log.warning("caller_unknown", status=status, reason=reason, client=address, count=count)


def _challenge(error: NotAuthenticated) -> str:
    """RFC 6750, section 3."""
    description = _NOT_IN_A_CHALLENGE.sub("'", str(error))
    return f'{_CHALLENGE}, error="{error.problem}", error_description="{description}"'


class Anybody:
    """Asks for nothing: everyone who can connect is the local caller."""

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        return LOCAL

    async def vouched_for(self, user: str, groups: Sequence[str]) -> Caller:
        return LOCAL

    async def check(self) -> None:
        return


class Counted:
    """An authenticator whose every decision, and every decision on the rights of its callers, is counted."""

    def __init__(self, authenticator: Authenticator, *, metrics: Metrics) -> None:
        self._authenticator = authenticator
        self._metrics = metrics

    async def authenticate(self, authorization: Sequence[str], *, address: str) -> Caller:
        return await self._counted(self._authenticator.authenticate(authorization, address=address))

    async def vouched_for(self, user: str, groups: Sequence[str]) -> Caller:
        return await self._counted(self._authenticator.vouched_for(user, groups))

    async def _counted(self, found: Awaitable[Caller]) -> Caller:
        try:
            caller = await found
        except NotAuthenticated:
            self._metrics.count_auth_decision(_CHECK, "denied")
            raise
        except Exception:
            self._metrics.count_auth_decision(_CHECK, "undecided")
            raise
        self._metrics.count_auth_decision(_CHECK, "allowed")
        return replace(caller, access=_CountedAccess(caller.access, metrics=self._metrics))

    async def check(self) -> None:
        await self._authenticator.check()


class _CountedAccess:
    def __init__(self, access: Access, *, metrics: Metrics) -> None:
        self._access = access
        self._metrics = metrics

    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        try:
            allowed = await self._access.allows(right, namespace=namespace)
        except Unavailable:
            self._metrics.count_auth_decision(str(right), "undecided")
            raise
        # That it is not given everywhere takes nothing from the caller: each namespace is asked for as well.
        if allowed or namespace is not None:
            self._metrics.count_auth_decision(str(right), "allowed" if allowed else "denied")
        return allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """The resource at `address`, empty where each request says by its Host; clients ask the issuer for `scope`."""

    issuer: str
    scope: str
    address: str

    def metadata(self, scope: Scope) -> dict[str, Any]:
        """The document of RFC 9728."""
        return {
            "resource": f"{self._base(scope)}{MCP_PATH}",
            "authorization_servers": [self.issuer],
            "scopes_supported": self.scope.split(),
            "bearer_methods_supported": ["header"],
            "resource_name": "Formulary",
        }

    def challenge(self, scope: Scope) -> str:
        """What a 401 says besides why."""
        return f'resource_metadata="{self._base(scope)}{_METADATA_PATH}{MCP_PATH}", scope="{self.scope}"'

    def _base(self, scope: Scope) -> str:
        """The edge has checked the Host."""
        return self.address or f"{scope['scheme']}://{Headers(scope=scope).get('host', '')}"


class _Nothing:
    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        return False


_NOTHING: Access = _Nothing()


def is_of_sender(scope: Scope) -> bool:
    """Whether a request is a message of an incident source."""
    return scope["method"] == "POST" and _ALERTS_PATH.fullmatch(scope["path"]) is not None


def source_of(request: Request) -> StoredSource:
    """The source that sent the request."""
    source: StoredSource = request.scope[_SOURCE_KEY]
    return source


class Senders:
    """Says which source sends a request, or why nobody can be held to it."""

    def __init__(self, receiving: AlertReceiving) -> None:
        self._receiving = receiving
        self._throttle = Throttle()

    async def of(self, scope: Scope) -> Caller | Response:
        """The sender, whose source is kept in the scope; or the refusal to send."""
        matched, headers = _ALERTS_PATH.fullmatch(scope["path"]), Headers(scope=scope)
        assert matched is not None, "asked for messages of sources alone"
        namespace, name = matched.groups()
        try:
            source = await self._receiving.sender(
                namespace,
                name,
                authorization=headers.getlist("authorization"),
                signed=SIGNATURE_HEADER in headers,
            )
        except Exception as error:
            failure = secret_failure_of(error)
            if count := self._throttle.admit((failure.status, namespace[:64], name[:64])):
                _log.warning("sender_refused", status=failure.status, namespace=namespace, source=name, count=count)
            return error_reply(path=scope["path"], status=failure.status, code=failure.code, message=failure.message)
        scope[_SOURCE_KEY] = source
        return Caller(name=f"incident source {source.namespace}/{source.name}", access=_NOTHING)
