"""Writes statuses of our own kinds where they differ, with an Event where people should see the change.

All reconcilers of runs, contracts and approvals call it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from formulary_operator.api.names import Json, Resource
from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.conditions import status_of
from formulary_operator.kube.events import EventRecorder
from formulary_operator.kube.patching import merge_patch
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.workflows.status import Transition


class Reporter:
    """Writes statuses of one kind."""

    def __init__(
        self, resource: Resource, *, client: KubeClient, events: EventRecorder, metrics: OperatorMetrics
    ) -> None:
        self._resource = resource
        self._client = client
        self._events = events
        self._metrics = metrics

    async def report(self, document: Json, wanted: Mapping[str, Any], *, change: Transition | None) -> None:
        """Have the status of an object say this, null standing for absence.

        Raises:
            KubernetesUnavailable: the API server does not answer.
        """
        patch = merge_patch(status_of(document), wanted)
        if not patch:
            return
        metadata = document["metadata"]
        path = self._resource.path(namespace=metadata["namespace"], name=metadata["name"], subresource="status")
        # The uid is a precondition: an object that was created again meanwhile is another one.
        written = await self._client.merge(path, {"metadata": {"uid": metadata["uid"]}, "status": patch})
        self._metrics.count_status_patch("gone" if written is None else "ok")
        if written is not None and change is not None:
            await self._events.record(document, type=change.type, reason=change.reason, message=change.message)


def timestamp() -> str:
    """Now, as statuses have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
