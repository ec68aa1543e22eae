"""One AIAnalysis: from the object in the cluster to the stored constraints of its incident (DESIGN section 6).

The work queue calls it. Deleted objects are kept for a while: a late call must fail closed, not search unconstrained.
"""

import structlog
from cachetools import LRUCache

from formulary_catalog.errors import InvalidManifest
from formulary_catalog.store.incidents import ContextWriter
from formulary_operator.api.names import ANALYSES, Json
from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.events import EventRecorder
from formulary_operator.workflows.translate import context_of

_MAX_REMEMBERED = 1024
_log = structlog.get_logger(__name__)


class ContextReconciler:
    """Keeps the stored contexts in step with the AIAnalysis objects, which are never written."""

    def __init__(self, *, client: KubeClient, contexts: ContextWriter, events: EventRecorder) -> None:
        self._client = client
        self._contexts = contexts
        self._events = events
        self._reported: LRUCache[str, str] = LRUCache(_MAX_REMEMBERED)

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
            await self._report(document, problem=error.detail)
            return "Invalid"
        await self._contexts.save(context)
        return "Stored"

    async def _report(self, document: Json, *, problem: str) -> None:
        """Say once what is wrong with an object; its controller may write to it all the time."""
        metadata = document["metadata"]
        if self._reported.get(metadata["uid"]) == problem:
            return
        self._reported[metadata["uid"]] = problem
        _log.warning("analysis_invalid", namespace=metadata["namespace"], name=metadata["name"], reason=problem)
        message = f"searches for this incident fail: {problem}"
        await self._events.record(document, type="Warning", reason="ContextInvalid", message=message)
