"""One AIAnalysis: from the cluster's object to the stored request context (DESIGN section 6)."""

from collections.abc import Mapping
from typing import Any

import structlog

from formulary_catalog.domain.analysis import RequestContext
from formulary_catalog.domain.entry import incident_context
from formulary_catalog.errors import InvalidManifest
from formulary_catalog.store.contexts import ContextWriter
from formulary_operator.api.names import ANALYSES
from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.events import EventRecorder
from formulary_operator.workflows import SOURCE

_log = structlog.get_logger(__name__)


def context_of(document: Mapping[str, Any]) -> RequestContext:
    """The context that an object stands for.

    Raises:
        InvalidManifest: a field breaks a rule; values of custom labels are never shown.
    """
    return incident_context(document, source=SOURCE, default_namespace=document["metadata"]["namespace"])


class ContextReconciler:
    """Keeps the stored contexts in step with the AIAnalysis objects, which are never written."""

    def __init__(self, *, client: KubeClient, contexts: ContextWriter, events: EventRecorder) -> None:
        self._client = client
        self._contexts = contexts
        self._events = events

    async def reconcile(self, *, namespace: str, name: str) -> str:
        """Bring one object in step. What became of it: `Stored`, `Invalid` or `Gone`.

        Of an object that cannot be read no context is kept: calls for its incident fail rather than widen.

        Raises:
            Unavailable: the catalog or the API server does not answer; try again later.
        """
        document = await self._client.get(ANALYSES.path(namespace=namespace, name=name))
        if document is None or "deletionTimestamp" in document["metadata"]:
            await self._contexts.mark_gone(namespace=namespace, name=name)
            return "Gone"
        try:
            context = context_of(document)
        except InvalidManifest as error:
            await self._contexts.remove(namespace=namespace, name=name)
            _log.warning("analysis_invalid", namespace=namespace, name=name, reason=error.detail)
            message = f"searches for this incident fail: {error.detail}"
            await self._events.record(document, type="Warning", reason="ContextInvalid", message=message)
            return "Invalid"
        await self._contexts.save(context)
        return "Stored"
