"""Asking the API server to judge something: reviews are created, answered at once, and stored nowhere."""

from collections.abc import Mapping
from typing import Any

import structlog

from formulary_catalog.errors import Unavailable
from formulary_operator.kube.client import Json, KubeClient, KubernetesRefused

_log = structlog.get_logger(__name__)


async def reviewed(client: KubeClient, path: str, *, api_version: str, kind: str, spec: Mapping[str, Any]) -> Json:
    """The status of a review.

    Raises:
        Unavailable: there is none, for whatever reason; nothing may be assumed then.
    """
    try:
        answer = await client.create(path, {"apiVersion": api_version, "kind": kind, "spec": spec})
    except Unavailable as error:
        raise Unavailable(
            "the Kubernetes API does not answer, so callers cannot be checked; retry in a few seconds"
        ) from error
    except KubernetesRefused as error:
        _log.error("review_refused", kind=kind, status=error.status, reason=error.reason)
        raise Unavailable(
            f"the Kubernetes API refuses this server a {kind} ({error.status} {error.reason}), so callers cannot be "
            "checked; its operators have to bind its ServiceAccount to the ClusterRole system:auth-delegator"
        ) from error
    status = answer.get("status")
    if not isinstance(status, dict):
        raise Unavailable(f"the Kubernetes API answers a {kind} without a status; retry in a few seconds")
    return status
