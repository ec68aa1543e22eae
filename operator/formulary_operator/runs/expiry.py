"""The end of what runs leave: objects of runs that ended, their rows, and the records of who created them.

The resync calls it once it has listed the cluster: only then it is known which objects exist. Secrets and Jobs of a run
belong to its object and go with it.
"""

import structlog

from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.runs.expiry import ExpiryWriter, ObjectOfRun
from formulary_operator.api.names import INVOCATIONS, Resource
from formulary_operator.kube.client import Json, KubeClient
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.runs.status import is_of_the_server, is_settled
from formulary_operator.settings import OperatorSettings

_HOUR = 3600.0
_OBJECTS_AT_ONCE = 500
"""Deleted after one resync; the next one goes on."""
_log = structlog.get_logger(__name__)


class ListedObjects:
    """The objects of runs, rules and approvals that a resync listed, as far as expiry has to know them."""

    def __init__(self) -> None:
        self.uids: set[str] = set()
        self.ended: list[ObjectOfRun] = []
        """Objects of runs that say that they ended, and that nobody creates again."""

    def add(self, resource: Resource, document: Json) -> None:
        """Note one object."""
        metadata = document["metadata"]
        self.uids.add(metadata["uid"])
        if resource is INVOCATIONS and is_settled(document) and _has_made_up_name(document):
            self.ended.append(ObjectOfRun(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"]))


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
        """Delete objects first; their rows follow after a later resync, which does not list them any more.

        What cannot be deleted now is left to the next resync, which goes on without it.

        Raises:
            Superseded: another operator leads.
        """
        try:
            await self._expire_objects(listed.ended)
            seconds, existing = self._row_seconds, listed.uids
            self._count("run", await self._writer.delete_runs(before_seconds=seconds, existing=existing))
            self._count("admission", await self._writer.delete_admissions(before_seconds=seconds, existing=existing))
        except Superseded:
            raise
        except FormularyError as error:
            _log.warning("not_expired", reason=str(error))

    async def _expire_objects(self, ended: list[ObjectOfRun]) -> None:
        over = await self._writer.ended(ended, before_seconds=self._object_seconds)
        for each in over[:_OBJECTS_AT_ONCE]:
            path = INVOCATIONS.path(namespace=each.namespace, name=each.name)
            self._count("object", int(await self._client.delete(path, uid=each.uid)))

    def _count(self, kind: str, number: int) -> None:
        if number:
            self._metrics.expired.labels(kind=kind).inc(number)
            _log.info("expired", kind=kind, number=number)


def _has_made_up_name(document: Json) -> bool:
    """Whether the name is one that the server or the API server made up.

    Any other object may stand in a repository: GitOps would create it again, and another object is another run.
    """
    return is_of_the_server(document) or bool(document["metadata"].get("generateName"))
