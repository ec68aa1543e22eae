"""Finding out which incident source sends a message, before its body is read (DESIGN section 15).

`edges/http/middleware` asks it for the one path that other systems post to. A sender has no right but to be heard
there: it proves itself with the secret of its source, not with a token of the cluster.
"""

import re

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from formulary_catalog.domain.access import Access, Caller, Right
from formulary_catalog.edges.calls.error_replies import error_reply
from formulary_catalog.edges.calls.failures import secret_failure_of
from formulary_catalog.log import Throttle
from formulary_catalog.services.incidents.receiving import SIGNATURE_HEADER, AlertReceiving
from formulary_catalog.store.incident_sources import StoredSource

MAX_ALERT_BYTES = 1024 * 1024
"""Of one message: Alertmanager sends all alerts of a group at once."""
_PATH = re.compile(r"/api/v1/incidents/([^/]+)/([^/]+)")
_KEY = "formulary.source"
_log = structlog.get_logger(__name__)


class _Nothing:
    async def allows(self, right: Right, *, namespace: str | None) -> bool:
        return False


_NOTHING: Access = _Nothing()


def is_of_sender(scope: Scope) -> bool:
    """Whether a request is a message of an incident source."""
    return scope["method"] == "POST" and _PATH.fullmatch(scope["path"]) is not None


def source_of(request: Request) -> StoredSource:
    """The source that sent the request."""
    source: StoredSource = request.scope[_KEY]
    return source


class Senders:
    """Says which source sends a request, or why nobody can be held to it."""

    def __init__(self, receiving: AlertReceiving) -> None:
        self._receiving = receiving
        self._throttle = Throttle()

    async def of(self, scope: Scope) -> Caller | Response:
        """The sender, whose source is kept in the scope; or the refusal to send."""
        matched, headers = _PATH.fullmatch(scope["path"]), Headers(scope=scope)
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
        scope[_KEY] = source
        return Caller(name=f"incident source {source.namespace}/{source.name}", access=_NOTHING)
