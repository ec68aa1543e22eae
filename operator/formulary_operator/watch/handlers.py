"""Which event of which kind does what: all handlers of kopf on one page.

`kopf_watch` runs kopf with this registry. A handler hands the name of an object to the work queue and returns. The
reconcilers (`workflows/`, `incidents`, `runs/`, `governance/`) read the object again and decide.

Why no patching in handlers: kopf logs an exception of `on.event` and drops the event. The handlers that it retries
(`on.create`, `on.update`) write a finalizer and an annotation to every object, and the finalizer of an operator that is
down holds each deletion. The queue keeps one entry for each object, one worker at a time on it, and retries with a
growing pause. Deletions that nobody watched are found by `resync`.

There is no `on.probe`: kubelets ask `health`, which asks whether this loop still turns. There is no `on.cleanup`:
nothing here outlives the watch.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
import structlog

from formulary_operator.api.names import WORKFLOWS, Resource
from formulary_operator.kube.client import PAGE_SIZE
from formulary_operator.watch.queue import ObjectKey, Priority
from formulary_operator.workflows.status import is_observed
from formulary_operator.workflows.translate import is_suspended

_log = structlog.get_logger(__name__)
LOGIN_PAUSES = (1.0, 1.0, 2.0, 4.0, 8.0)
"""Seconds before the same credentials are tried again that were refused. Refused once more, they end the watch."""
_LOGIN_HOLDS_SECONDS = 60.0
"""After so long a refusal is the first one again."""
Changed = Callable[[ObjectKey, Priority], None]
"""Takes an object that changed, and how soon it has to be looked at."""


def handlers(kinds: Sequence[Resource], *, changed: Changed, relisted: Callable[[], None]) -> kopf.OperatorRegistry:
    """The handlers for these kinds. `relisted` is called at each listing, from which deletions are missing."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False  # Events are ours, on transitions only
        settings.watching.server_timeout = 300
        settings.watching.connect_timeout = 10
        settings.watching.chunk_size = PAGE_SIZE  # a list of 10,000 objects at once would be all of our memory
        settings.queueing.idle_timeout = 0.5  # each object seen holds a task for so long
        settings.networking.request_timeout = 30
        settings.networking.error_backoffs = (1, 2, 5, 10, 20)
        settings.networking.enforce_retry_after = True

    kopf.on.login(registry=registry)(_Logins().log_in)

    async def workflow(*, type: str | None, body: kopf.Body, namespace: str, name: str, **_: Any) -> None:
        key = ObjectKey(WORKFLOWS.plural, namespace, name)
        if type is None:
            relisted()
        elif type == "DELETED" or not is_observed(body):  # our own write of a status comes back as an event
            ends = type == "DELETED" or is_suspended(body)
            changed(key, Priority.URGENT if ends else Priority.CHANGED)  # an end does not wait behind new workflows

    def of(resource: Resource) -> Callable[..., Any]:
        """For incidents, runs, approvals and contracts: each change counts, and none waits behind workflows."""

        async def seen(*, type: str | None, namespace: str, name: str, **_: Any) -> None:
            if type is None:
                relisted()
            else:
                changed(ObjectKey(resource.plural, namespace, name), Priority.URGENT)

        return seen

    for resource in kinds:
        handler: Callable[..., Any] = workflow if resource is WORKFLOWS else of(resource)
        kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)(handler)
    return registry


class _Logins:
    """Credentials for kopf, which gives up where it gets those again that were refused.

    An API server that starts, or loses its etcd, refuses for a moment what is good.
    """

    def __init__(self) -> None:
        self._at = float("-inf")
        self._refusals = 0

    async def log_in(self, **arguments: Any) -> kopf.ConnectionInfo | None:
        """The credentials as they are now; kopf takes them for new ones unless they were refused too often."""
        before, self._at = self._at, time.monotonic()
        self._refusals = self._refusals + 1 if self._at - before < _LOGIN_HOLDS_SECONDS else 0
        tired = self._refusals > len(LOGIN_PAUSES)
        if self._refusals and not tired:
            pause = LOGIN_PAUSES[self._refusals - 1]
            _log.warning("watch_refused", reason="the Kubernetes API refuses the credentials", tried_again_in=pause)
            await asyncio.sleep(pause)
        # After the pause: the token may have been renewed meanwhile.
        info = kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
        return info if info is None or tired else replace(info, expiration=datetime.now(UTC) + timedelta(days=365))
