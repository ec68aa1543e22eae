"""Events: what `kubectl describe` shows below an object.

Reconcilers, the guard of sweeps and the publisher of checkpoints record where people should see a change. An Event is
never worth failing a reconcile: what cannot be written is logged.
"""

import uuid
from datetime import UTC, datetime
from typing import Literal

import structlog

from formulary_catalog.errors import FormularyError
from formulary_operator.api.names import EVENTS, Json
from formulary_operator.kube.client import KubeClient

COMPONENT = "formulary-operator"
MAX_MESSAGE_BYTES = 1024
"""As much as newer API servers take of an Event's note."""

_MAX_NAME = 253
_CUT = "…"

_log = structlog.get_logger(__name__)


class EventRecorder:
    """Writes Events. `instance` says which replica reports."""

    def __init__(self, client: KubeClient, *, instance: str) -> None:
        self._client = client
        self._instance = instance

    async def record(self, regarding: Json, *, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Write one Event about an object into the object's namespace. A failure is logged, never raised."""
        event = self._event(regarding, type=type, reason=reason, message=message)
        try:
            await self._client.create(EVENTS.path(namespace=event["metadata"]["namespace"]), event)
        except FormularyError as error:
            _log.warning("event_not_written", event_reason=reason, reason=str(error))

    def _event(self, regarding: Json, *, type: str, reason: str, message: str) -> Json:
        metadata = regarding["metadata"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": _unique(metadata["name"]), "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                **{key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion") if key in metadata},
            },
            "type": type,
            "reason": reason,
            "message": _cut(message),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _unique(name: str) -> str:
    """A name for an Event about the object of this name."""
    suffix = f".{uuid.uuid4().hex[:16]}"
    return name[: _MAX_NAME - len(suffix)].rstrip("-.") + suffix


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return message
    return encoded[: MAX_MESSAGE_BYTES - len(_CUT.encode())].decode(errors="ignore") + _CUT
