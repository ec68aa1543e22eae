"""One RemediationWorkflow: from the cluster's object to the catalog and back to the object's status."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from formulary_catalog.domain.entry import CatalogEntry, catalog_entry
from formulary_catalog.errors import InvalidManifest, Unavailable
from formulary_catalog.store.catalog import CatalogWriter
from formulary_operator.api.names import WORKFLOWS
from formulary_operator.core.finding import Finding, postponed, refused, stored
from formulary_operator.core.status import differs, is_observed, transition, wanted_status
from formulary_operator.embedding import Embedding
from formulary_operator.kube.client import KubeClient, KubernetesUnavailable
from formulary_operator.kube.events import EventRecorder
from formulary_operator.metrics import OperatorMetrics

SOURCE = "cluster"
"""The stored source of what came from Kubernetes objects."""

Json = dict[str, Any]
_log = structlog.get_logger(__name__)


def entry_of(document: Mapping[str, Any]) -> CatalogEntry:
    """The entry that an object stands for.

    Raises:
        InvalidManifest: a field breaks a rule.
    """
    # Only what identifies the content is kept: managed fields and statuses of clusters are nobody's to read.
    metadata = document["metadata"]
    manifest = {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": document.get("spec"),
    }
    return catalog_entry(manifest, source=SOURCE, default_namespace=metadata["namespace"])


class WorkflowReconciler:
    """Makes the catalog hold what the cluster says, object by object; each call looks at the object anew."""

    def __init__(
        self,
        *,
        client: KubeClient,
        catalog: CatalogWriter,
        embedding: Embedding,
        events: EventRecorder,
        metrics: OperatorMetrics,
    ) -> None:
        self._client = client
        self._catalog = catalog
        self._embedding = embedding
        self._events = events
        self._metrics = metrics

    async def reconcile(self, *, namespace: str, name: str) -> str:
        """Bring one object in step. What was found: a `Reason`, or `Gone`.

        Raises:
            Unavailable: the catalog or the API server does not answer; try again later.
        """
        document = await self._client.get(WORKFLOWS.path(namespace=namespace, name=name))
        if document is None or "deletionTimestamp" in document["metadata"]:
            if await self._catalog.remove(namespace=namespace, name=name):
                _log.info("workflow_removed", namespace=namespace, name=name)
            return "Gone"
        try:
            finding = await self._store(document)
        except Unavailable as error:
            # What is known to be served still is: no word of the outage on each of those.
            if not isinstance(error, KubernetesUnavailable) and not is_observed(document):
                await self._report(document, postponed(error))
            raise
        await self._report(document, finding)
        return finding.reason

    async def _store(self, document: Mapping[str, Any]) -> Finding:
        metadata = document["metadata"]
        try:
            entry = entry_of(document)
            model_id = await self._apply(entry, uid=metadata["uid"])
        except InvalidManifest as error:
            current = await self._catalog.current(namespace=metadata["namespace"], name=metadata["name"])
            return refused(error, still_served=current.version if current is not None else "")
        return stored(entry, model_id=model_id, problem=None if model_id else self._embedding.problem)

    async def _apply(self, entry: CatalogEntry, *, uid: str) -> str:
        """Store the entry with its vector; the model of that vector, empty if it has none."""
        embedder = await self._embedding.embedder()
        if embedder is None or entry.workflow.spec.suspend:
            await self._catalog.apply(entry, owner=uid)
            return ""
        known = not await self._catalog.missing_texts([entry.text_hash], model_id=embedder.model_id)
        vector = None if known else await self._embedding.vector(entry.embedding_text)
        await self._catalog.apply(entry, model_id=embedder.model_id, vector=vector, owner=uid)
        return embedder.model_id if known or vector is not None else ""

    async def _report(self, document: Json, finding: Finding) -> None:
        """Write the status where it differs, and an Event where the object's standing changed."""
        wanted = wanted_status(document, finding, now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        if not differs(document, wanted):
            return
        metadata = document["metadata"]
        path = WORKFLOWS.path(namespace=metadata["namespace"], name=metadata["name"], subresource="status")
        written = await self._client.merge(path, {"status": wanted})
        self._metrics.count_status_patch("gone" if written is None else "ok")
        change = transition(document, wanted)
        if written is None or change is None:
            return
        _log.info(
            "workflow_standing",
            namespace=metadata["namespace"],
            name=metadata["name"],
            reason=change.reason,
            detail=change.message,
        )
        await self._events.record(document, type=change.type, reason=change.reason, message=change.message)
