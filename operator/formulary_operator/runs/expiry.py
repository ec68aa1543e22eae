"""The end of what runs leave: objects of runs that ended, their rows, and the records of who created them.

The resync calls it once it has listed the cluster: only then it is known which objects exist. Secrets and Jobs of a run
belong to its object and go with it.
"""

import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import structlog

from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.runs.expiry import ExpiryWriter, ObjectOfRun
from formulary_operator.api.names import INVOCATIONS, Json, Resource
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.runs.status import ended_at, is_of_the_server, is_settled
from formulary_operator.settings import OperatorSettings

_HOUR = 3600.0
_REHEARSAL_SECONDS = _HOUR
"""For which the object of a dry run is kept: it changed nothing, and agents make many."""
_AT_ONCE = 500
_ROWS_AT_ONCE = 20_000
"""After one resync; the next one goes on."""
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_log = structlog.get_logger(__name__)


class ListedObjects:
    """The objects of runs, rules and approvals that a resync listed, as far as expiry has to know them."""

    def __init__(self) -> None:
        self.uids: set[str] = set()
        self.ended: dict[ObjectOfRun, datetime | None] = {}
        """Objects of runs that say that they ended, and when; those that nobody creates again."""

    def add(self, resource: Resource, document: Json) -> None:
        """Note one object."""
        metadata = document["metadata"]
        self.uids.add(metadata["uid"])
        going = "deletionTimestamp" in metadata
        if resource is INVOCATIONS and is_settled(document) and not going and _is_not_kept_elsewhere(document):
            run = ObjectOfRun(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])
            self.ended[run] = ended_at(document)


class RunExpiry:
    """Deletes what is older than the settings keep it."""

    def __init__(
        self, settings: OperatorSettings, *, client: KubeClient, database: Database, metrics: OperatorMetrics
    ) -> None:
        self._object_seconds = settings.run_object_retention_hours * _HOUR
        self._row_seconds = settings.run_retention_hours * _HOUR
        self._client = client
        self._writer = ExpiryWriter(database, namespaces=settings.watch_namespaces)
        self._metrics = metrics

    async def expire(self, listed: ListedObjects) -> None:
        """Delete objects; their rows follow after a later resync, which does not list them any more.

        What cannot be deleted now is counted, logged, and left to the next resync. It holds up nothing else.

        Raises:
            Superseded: another operator leads.
        """
        rows, kept = self._row_seconds, listed.uids
        await self._count("object", lambda: self._delete_objects(listed))
        await self._count("run", lambda: self._writer.delete_runs(before_seconds=rows, existing=kept))
        await self._count("admission", lambda: self._writer.delete_admissions(before_seconds=rows, existing=kept))

    async def _delete_objects(self, listed: ListedObjects) -> AsyncIterator[int]:
        over = await self._ended(listed)
        for each in random.sample(over, min(_AT_ONCE, len(over))):  # so that those that stay are not always the first
            path = INVOCATIONS.path(namespace=each.namespace, name=each.name)
            try:
                yield int(await self._client.delete(path, uid=each.uid))
            except KubernetesRefused as error:
                self._log_failure("object", error)

    async def _ended(self, listed: ListedObjects) -> list[ObjectOfRun]:
        """The row says whether a run ended. An object that became no run, or whose row is lost, says it itself."""
        known = await self._writer.ended(
            list(listed.ended), before_seconds=self._object_seconds, rehearsals_before_seconds=_REHEARSAL_SECONDS
        )
        now = datetime.now(UTC)

        def is_over(each: ObjectOfRun, at: datetime | None) -> bool:
            by_itself = at is not None and (now - at).total_seconds() > self._object_seconds
            return known.get(each.uid, by_itself)

        return [each for each, at in listed.ended.items() if is_over(each, at)]

    async def _count(self, kind: str, deletion: Callable[[], AsyncIterator[int]]) -> None:
        deleted = 0
        try:
            async for number in deletion():
                deleted += number
                self._metrics.expired.labels(kind=kind).inc(number)
                if deleted >= _ROWS_AT_ONCE:
                    break
        except Superseded:
            raise
        except FormularyError as error:
            self._log_failure(kind, error)
        if deleted:
            _log.info("expired", kind=kind, number=deleted)

    def _log_failure(self, kind: str, error: FormularyError) -> None:
        self._metrics.expiry_failures.labels(kind=kind).inc()
        _log.warning("not_expired", kind=kind, reason=str(error))


def _is_not_kept_elsewhere(document: Json) -> bool:
    """Whether nobody keeps the object in a repository: the server or the API server made up its name, and nothing
    applied it.

    GitOps creates again what is deleted, and another object is another run. An exported object may stand there with the
    name that was made up for it.
    """
    metadata = document["metadata"]
    if is_of_the_server(document):
        return True
    applied = _APPLIED in (metadata.get("annotations") or {}) or any(
        entry.get("operation") == "Apply" and not entry.get("subresource")
        for entry in metadata.get("managedFields") or []
    )
    return bool(metadata.get("generateName")) and not applied
