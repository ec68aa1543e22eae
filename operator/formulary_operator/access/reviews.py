"""Asking the API server to judge something: reviews are created, answered at once, and stored nowhere."""

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from formulary_catalog.errors import Unavailable
from formulary_catalog.log import Throttle
from formulary_operator.api.names import Json
from formulary_operator.kube.client import KubeClient, KubernetesRefused

_log = structlog.get_logger(__name__)


class Reviewer:
    """Creates reviews. That it is refused one is logged once in ten seconds."""

    def __init__(self, client: KubeClient, *, again_seconds: float = 0.25) -> None:
        self._client = client
        self._again_seconds = again_seconds
        self._throttle = Throttle()

    async def review(self, path: str, *, api_version: str, kind: str, spec: Mapping[str, Any]) -> Json:
        """The status of a review. While the API server does not answer it is asked again: the caller sets the time.

        Raises:
            Unavailable: there is none, and there will be none; nothing may be assumed then.
        """
        try:
            answer = await self._created(path, {"apiVersion": api_version, "kind": kind, "spec": spec})
        except KubernetesRefused as error:
            count = self._throttle.admit((kind, error.status, error.reason))
            if count:
                _log.error("review_refused", kind=kind, status=error.status, reason=error.reason, count=count)
            raise Unavailable(
                f"the Kubernetes API refuses this server a {kind} ({error.status} {error.reason}), so callers cannot "
                "be checked; its operators have to bind its ServiceAccount to the ClusterRole system:auth-delegator"
            ) from error
        status = answer.get("status")
        if not isinstance(status, dict):
            raise Unavailable(f"the Kubernetes API answers a {kind} without a status; retry in a few seconds")
        return status

    async def _created(self, path: str, body: Mapping[str, Any]) -> Json:
        while True:
            try:
                return await self._client.create(path, body)
            except Unavailable:
                # Agents do not repeat a call, so a restart of the API server should not reach them.
                await asyncio.sleep(self._again_seconds)
