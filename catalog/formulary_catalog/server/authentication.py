"""Finding out who calls, before anything else of a call is looked at (DESIGN section 9)."""

from collections.abc import Sequence

import structlog
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Scope

from formulary_catalog.domain.access import Access, Authenticator, Caller, Right
from formulary_catalog.errors import NotAuthenticated, Unavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.server.callers import LOCAL
from formulary_catalog.server.failures import failure_of
from formulary_catalog.server.replies import error_reply

_CHECK = "token"
_log = structlog.get_logger(__name__)


async def identified(scope: Scope, *, authenticator: Authenticator) -> Caller | JSONResponse:
    """Who sends a request; the refusal if nobody can be held to it.

    A refusal leaves a line in the log and no row in the database, which strangers could fill otherwise.
    """
    authorization = Headers(scope=scope).getlist("authorization")
    try:
        return await authenticator.authenticate(authorization)
    except Exception as error:
        failure = failure_of(error)
    address = (scope.get("client") or ("",))[0]
    _log.warning("caller_unknown", status=failure.status, reason=failure.message, client=address)
    challenge = 'Bearer realm="formulary"' + (', error="invalid_token"' if authorization else "")
    return error_reply(
        path=scope["path"],
        status=failure.status,
        code=failure.code,
        message=failure.message,
        headers={"WWW-Authenticate": challenge} if failure.status == 401 else None,
    )


class Anybody:
    """Asks for nothing: everyone who can connect is the local caller."""

    async def authenticate(self, authorization: Sequence[str]) -> Caller:
        return LOCAL


class Counted:
    """An authenticator whose every decision, and every decision on the rights of its callers, is counted."""

    def __init__(self, authenticator: Authenticator, *, metrics: Metrics) -> None:
        self._authenticator = authenticator
        self._metrics = metrics

    async def authenticate(self, authorization: Sequence[str]) -> Caller:
        try:
            caller = await self._authenticator.authenticate(authorization)
        except NotAuthenticated:
            self._metrics.count_auth_decision(_CHECK, "denied")
            raise
        except Exception:
            self._metrics.count_auth_decision(_CHECK, "undecided")
            raise
        self._metrics.count_auth_decision(_CHECK, "allowed")
        return Caller(name=caller.name, access=_CountedAccess(caller.access, metrics=self._metrics))


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
        self._metrics.count_auth_decision(str(right), "allowed" if allowed else "denied")
        return allowed
