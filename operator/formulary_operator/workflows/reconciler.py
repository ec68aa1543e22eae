"""One RemediationWorkflow: from the object in the cluster to the catalog, and back to its status.

The work queue calls it with a name. It reads the object again, decides with `validation_result`, writes the catalog in
one transaction, then the status if it differs. A repeat changes nothing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.errors import InvalidManifest, Unavailable
from formulary_catalog.store.workflows.refusals import RefusalWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.api.names import WORKFLOWS, Json
from formulary_operator.kube.client import KubeClient, KubernetesUnavailable
from formulary_operator.kube.events import EventRecorder
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.workflows.embedding import Embedding
from formulary_operator.workflows.kept_fields import KeptFields
from formulary_operator.workflows.status import differs, is_observed, refusal_of, transition, wanted_status
from formulary_operator.workflows.translate import SOURCE, entry_of, is_suspended
from formulary_operator.workflows.validation_result import ValidationResult, postponed, refused, stored

_log = structlog.get_logger(__name__)


class WorkflowReconciler:
    """Makes the catalog hold what the cluster says, object by object; each call looks at the object again."""

    def __init__(
        self,
        *,
        client: KubeClient,
        catalog: CatalogWriter,
        refusals: RefusalWriter,
        embedding: Embedding,
        kept_fields: KeptFields,
        events: EventRecorder,
        metrics: OperatorMetrics,
    ) -> None:
        self._client = client
        self._catalog = catalog
        self._refusals = refusals
        self._embedding = embedding
        self._kept_fields = kept_fields
        self._events = events
        self._metrics = metrics

    async def reconcile(self, *, namespace: str, name: str) -> str:
        """Bring one object in step. What was found: a `ConditionReason`, or `Gone`.

        Raises:
            Unavailable: the catalog or the API server does not answer; try again later.
        """
        document = await self._client.get(WORKFLOWS.path(namespace=namespace, name=name))
        if document is None or "deletionTimestamp" in document["metadata"]:
            if await self._catalog.remove(namespace=namespace, name=name, source=SOURCE):
                _log.info("workflow_removed", namespace=namespace, name=name)
            return "Gone"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            finding = await self._store(document)
            wanted = wanted_status(document, finding, now=now)
            if (refusal := refusal_of({**document, "status": wanted})) is not None:
                await self._refusals.note(refusal)
        except Unavailable as error:
            # What is known to be served still is: no word of the outage on each of those.
            if not isinstance(error, KubernetesUnavailable) and not is_observed(document):
                await self._report(document, wanted_status(document, postponed(error), now=now))
            raise
        await self._report(document, wanted)
        return finding.reason

    async def _store(self, document: Mapping[str, Any]) -> ValidationResult:
        uid = document["metadata"]["uid"]
        try:
            entry = entry_of(document)
            model_id = await self._apply(entry, uid=uid)
        except InvalidManifest as error:
            return refused(error, current=await self._left(document))
        return stored(entry, model_id=model_id, problem=None if model_id else self._embedding.problem)

    async def _left(self, document: Mapping[str, Any]) -> StoredWorkflow | None:
        """What the catalog holds for an object whose newest content it refuses.

        Not what belonged to a deleted object of this name. And `suspend` is obeyed whatever else is wrong: it is how
        people stop a workflow in a hurry.
        """
        named = {"namespace": document["metadata"]["namespace"], "name": document["metadata"]["name"]}
        await self._catalog.remove(**named, source=SOURCE, unless_owned_by=document["metadata"]["uid"])
        if is_suspended(document):
            await self._catalog.suspend(**named)
        return await self._catalog.current(**named)

    async def _apply(self, entry: CatalogEntry, *, uid: str) -> str:
        """Store the entry with its vector; the model of the vector that it has then, empty if it has none."""
        if entry.workflow.spec.suspend:  # which is done in a hurry, and needs no model
            await self._catalog.apply(entry, owner=uid)
            return ""
        model_id = await self._embedding.model_id()
        if not model_id:
            await self._catalog.apply(entry, owner=uid)
            current = await self._catalog.current(namespace=entry.namespace, name=entry.name)
            return current.model_id if current is not None else ""
        known = not await self._catalog.missing_texts([entry.text_hash], model_id=model_id)
        vector = None if known else await self._embedding.vector(entry.embedding_text, model_id=model_id)
        await self._catalog.apply(entry, model_id=model_id, vector=vector, owner=uid)
        return model_id if known or vector is not None else ""

    async def _report(self, document: Json, wanted: Json) -> None:
        """Write the status where it differs, and an Event where the object's standing changed."""
        if not differs(document, wanted, kept=self._kept_fields.names):
            return
        metadata = document["metadata"]
        path = WORKFLOWS.path(namespace=metadata["namespace"], name=metadata["name"], subresource="status")
        # The uid is a precondition: an object that was created again meanwhile is another one.
        written = await self._client.merge(path, {"metadata": {"uid": metadata["uid"]}, "status": wanted})
        self._metrics.count_status_patch("gone" if written is None else "ok")
        change = transition(document, wanted)
        if written is None or change is None:
            return
        _log.info(
            "workflow_status_changed",
            namespace=metadata["namespace"],
            name=metadata["name"],
            reason=change.reason,
            detail=change.message,
        )
        await self._events.record(document, type=change.type, reason=change.reason, message=change.message)
