"""Puts the operator together: who watches, who works, who leads, and how it ends.

`cli` calls it. Every replica watches and answers the webhook, only the leader works (`kube/lease`).
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import structlog

from formulary_catalog.errors import FormularyError, InvalidInput, StartupError, Unavailable
from formulary_catalog.listening.connection_limits import ConnectionLimits
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.fencing import Superseded, fence
from formulary_catalog.store.database.migrate import require_current_schema
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.resyncs import ResyncWriter
from formulary_catalog.store.runs.input_keys import input_keys
from formulary_catalog.store.workflows.refusals import RefusalWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.admission.webhook import serve_webhook
from formulary_operator.api.names import ANALYSES, INCIDENT_SOURCES, WORKFLOWS
from formulary_operator.audit import Auditing, ConfigMapPlace
from formulary_operator.incidents import ContextReconciler
from formulary_operator.knowledge.documents import Documents
from formulary_operator.kube.client import KubeClient, KubernetesUnavailable
from formulary_operator.kube.events import EventRecorder
from formulary_operator.kube.lease import Leadership
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.reporting import Reporter
from formulary_operator.resync import Resync
from formulary_operator.serving import OperatorHealth, StartPhase, served
from formulary_operator.settings import OperatorSettings
from formulary_operator.sources.reconciler import SourceReconciler
from formulary_operator.watch.kopf_watch import Watcher
from formulary_operator.watch.queue import CATALOG_KINDS, ObjectKey, StandbyNotes, WorkQueue
from formulary_operator.watch.sweep_guard import SweepGuard
from formulary_operator.wiring import RunWiring
from formulary_operator.workflows.embedding import Embedding
from formulary_operator.workflows.kept_fields import KeptFields
from formulary_operator.workflows.reconciler import WorkflowReconciler
from formulary_operator.workflows.translate import SOURCE

_DATABASE_SECONDS = 10.0
_DATABASE_PATIENCE = 600.0
_DRAIN_SECONDS = 8.0
_CRD_SECONDS = 2.0
_STANDBY_SECONDS = 5.0
"""A replica that does not lead after this time stands by."""
_log = structlog.get_logger(__name__)


async def run(settings: OperatorSettings) -> None:
    """Run until cancelled; then finish what has begun, within eight seconds.

    Raises:
        InvalidInput: no database is named.
        StartupError, Unavailable: something needed is not to be had.
        FormularyError: leadership or the watch was lost; a restart begins again.
    """
    if not settings.database_url:
        raise InvalidInput("name a database with FORMULARY_DATABASE_URL", field="database_url")
    async with AsyncExitStack() as stack:
        metrics = OperatorMetrics()
        health = OperatorHealth(metrics)
        if settings.health_port:
            await stack.enter_async_context(
                served(
                    health.application(),
                    host=settings.health_host,
                    port=settings.health_port,
                    limits=ConnectionLimits(
                        settings, server="probes", metrics=metrics.connections, probes=health.PATHS
                    ),
                )
            )
        client = await KubeClient.connect()
        stack.push_async_callback(client.close)
        database = health.database = await _database(settings, health=health)
        stack.push_async_callback(database.close)
        operator = Operator(settings, client=client, database=database, health=health, metrics=metrics)
        works = [_lead(operator, settings=settings, client=client, health=health)]
        if settings.webhook_port:
            works.append(serve_webhook(settings, client=client, database=database, metrics=metrics))
        await _first_to_end(*works)


async def _lead(
    operator: "Operator", *, settings: OperatorSettings, client: KubeClient, health: OperatorHealth
) -> None:
    """Lead at once where nobody is elected, else from when this replica is; it watches before, too."""
    await operator.prepare()
    if not settings.lease_namespace:
        await _first_to_end(operator.watch(), operator.lead())
        return
    leadership = Leadership(
        client, namespace=settings.lease_namespace, name=settings.lease_name, identity=_identity(settings)
    )
    health.phase = StartPhase.STANDBY
    await _first_to_end(operator.watch(), _lead_once_elected(operator, leadership=leadership))


async def _lead_once_elected(operator: "Operator", *, leadership: Leadership) -> None:
    await _until_elected(operator, leadership=leadership)
    keeping, leading = asyncio.create_task(leadership.keep()), asyncio.create_task(operator.lead())
    try:
        await asyncio.wait([keeping, leading], return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Asked to stop, the lease is kept while what has begun is finished. Without it nothing more may be written.
        if keeping.done():
            operator.drains = False
        for task in (leading, keeping):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await leadership.release()
    for task in (keeping, leading):
        if not task.cancelled():
            task.result()


async def _until_elected(operator: "Operator", *, leadership: Leadership) -> None:
    acquiring = asyncio.create_task(leadership.acquire())
    try:
        if not (await asyncio.wait([acquiring], timeout=_STANDBY_SECONDS))[0]:
            operator.stand_by()
        await acquiring
    except asyncio.CancelledError:
        acquiring.cancel()
        await leadership.release()
        raise


class Operator:
    """Every replica watches, one leads; of two that overlap, the former cannot write any more."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        client: KubeClient,
        database: Database,
        health: OperatorHealth,
        metrics: OperatorMetrics,
    ) -> None:
        self._settings = settings
        self._client = client
        self._health = health
        self._metrics = metrics
        self._database = database
        self._name = f"{settings.lease_namespace}/{settings.lease_name}"
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._notes = StandbyNotes(self._queue)
        self._catalog_failed = False
        self._superseded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._becoming_ready: asyncio.Task[None] | None = None
        self._warming_up: asyncio.Task[None] | None = None
        self.drains = True
        """Whether what is queued is still finished at the end."""
        events = EventRecorder(client, instance=_identity(settings))
        catalog, contexts = CatalogWriter(database), ContextWriter(database, source=SOURCE)
        refusals = RefusalWriter(database)
        kept_fields = KeptFields(client)
        embedding = self._embedding = Embedding(settings, models=ModelStore(database), metrics=metrics)
        self._reconcilers: dict[str, Callable[..., Awaitable[str]]] = {
            WORKFLOWS.plural: WorkflowReconciler(
                client=client,
                catalog=catalog,
                refusals=refusals,
                embedding=embedding,
                kept_fields=kept_fields,
                events=events,
                metrics=metrics,
            ).reconcile,
            ANALYSES.plural: ContextReconciler(client=client, contexts=contexts, events=events).reconcile,
        }
        config_map = None
        if settings.audit_config_map and settings.lease_namespace:
            config_map = ConfigMapPlace(
                client, events=events, namespace=settings.lease_namespace, name=settings.audit_config_map
            )
        self._auditing = Auditing(settings, database=database, metrics=metrics, config_map=config_map)
        self._documents = Documents(settings, client=client, database=database, embedding=embedding, queue=self._queue)
        self._executor = RunWiring(
            settings,
            name=self._name,
            client=client,
            database=database,
            events=events,
            metrics=metrics,
            queue=self._queue,
        )
        self._sources = SourceReconciler(
            client=client,
            sources=IncidentSourceWriter(database, origin=SOURCE, keys=input_keys(settings)),
            reporter=Reporter(INCIDENT_SOURCES, client=client, events=events, metrics=metrics),
            queue=self._queue,
            shared_namespace=settings.catalog_namespace,
            any_namespace=self._any_namespace,
        )
        self._reconcilers |= {**self._executor.reconcilers, INCIDENT_SOURCES.plural: self._sources.reconcile}
        self._resync = Resync(
            settings,
            name=self._name,
            client=client,
            catalog=catalog,
            refusals=refusals,
            resyncs=ResyncWriter(database),
            contexts=contexts,
            embedding=embedding,
            kept_fields=kept_fields,
            executor=self._executor,
            sources=self._sources,
            queue=self._queue,
            guard=SweepGuard(settings, name=self._name, database=database, events=events, metrics=metrics),
            metrics=metrics,
        )

    async def prepare(self) -> None:
        """Find out what is to be watched."""
        await self._kinds_served()
        await self._executor.find_kinds()
        await self._sources.find_kinds()

    def stand_by(self) -> None:
        """Get ready to take over: loading the model takes longer than all else that a new leader begins with."""
        self._warming_up = asyncio.create_task(self._embedding.warm_up())

    async def watch(self) -> None:
        """Watch until cancelled.

        Raises:
            StartupError: the watch ended by itself.
        """
        watcher = Watcher(
            kinds=(*CATALOG_KINDS, *self._executor.kinds, *self._sources.kinds),
            namespaces=self._settings.watch_namespaces,
            changed=self._notes.changed,
            relisted=self._resync.ask,
        )
        self._health.alive = watcher.is_alive
        await watcher.watch()
        raise StartupError("the watch on the Kubernetes API ended by itself; see the log for the reason")

    async def lead(self) -> None:
        """Reconcile until cancelled, then finish what is queued.

        Raises:
            Superseded: another operator leads.
        """
        self._health.phase = StartPhase.SYNCING
        await fence(self._database, name=self._name)
        self._metrics.leader.set(1)
        self._metrics.queue_depth.set_function(lambda: len(self._queue))
        self._notes.lead()
        self._embedding.cool_down()
        workers = [
            asyncio.create_task(self._queue.work(self._reconcile, failed=self._failed))
            for _ in range(self._settings.workers)
        ]
        try:
            await _first_to_end(
                self._resync.keep_running(done=self._synced),
                self._resync.notice_emptiness(),
                self._resync.notice_allowance(),
                self._until_superseded(),
                *self._auditing.works(),
                *self._documents.works(),
                *self._executor.works(),
                *self._sources.works(),
            )
        finally:
            self._notes.rest()
            if self.drains:
                await self._drain()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._metrics.leader.set(0)

    async def _until_superseded(self) -> None:
        try:
            await self._superseded
        except Superseded:
            self.drains = False
            raise

    async def _kinds_served(self) -> None:
        """Wait for the CRDs: a watch that began without them would never notice them."""
        for resource in CATALOG_KINDS:
            while not await self._client.serves(resource.path(namespace=self._any_namespace)):
                self._health.detail = f"waits for the CRD of {resource.kind} ({resource.api_version})"
                _log.warning("waiting_for_crd", kind=resource.kind, api_version=resource.api_version)
                await asyncio.sleep(_CRD_SECONDS)
        self._health.detail = ""

    @property
    def _any_namespace(self) -> str:
        """One that may be asked about; empty for all of them."""
        return next(iter(self._settings.watch_namespaces), "")

    async def _reconcile(self, key: ObjectKey) -> None:
        started = time.monotonic()
        try:
            outcome = await self._reconcilers[key.kind](namespace=key.namespace, name=key.name)
        except Exception:
            self._metrics.observe_reconcile(key.kind, outcome="failed", seconds=time.monotonic() - started)
            raise
        self._metrics.observe_reconcile(key.kind, outcome=outcome, seconds=time.monotonic() - started)
        _log.debug("reconciled", kind=key.kind, namespace=key.namespace, name=key.name, outcome=outcome)

    def _failed(self, key: ObjectKey, error: Exception) -> None:
        named = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if not isinstance(error, FormularyError):
            _log.error("reconcile_crashed", **named, exc_info=error)
            return
        _log.warning("reconcile_failed", **named, reason=str(error))
        if isinstance(error, Superseded) and not self._superseded.done():
            self._superseded.set_exception(error)
        outage = isinstance(error, Unavailable) and not isinstance(error, KubernetesUnavailable)
        if outage and not self._catalog_failed:
            self._catalog_failed = True
            self._resync.ask()  # it is tried until it succeeds, and then hurries what waits

    def _synced(self) -> None:
        """Take note of a resync that succeeded."""
        self._catalog_failed = False
        if self._becoming_ready is None:
            self._becoming_ready = asyncio.create_task(self._become_ready())

    async def _become_ready(self) -> None:
        """Ready once everything that the first comparison found has been tried."""
        await self._queue.settled()
        self._health.phase = StartPhase.READY
        _log.info("ready")

    async def _drain(self) -> None:
        self._queue.abandon_pauses()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._queue.settled()


async def _first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    """Run together until one ends or fails; the others are cancelled and awaited."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _database(settings: OperatorSettings, *, health: OperatorHealth) -> Database:
    """The database once it answers and is migrated: at an installation that is some time after us."""
    deadline = time.monotonic() + _DATABASE_PATIENCE
    while True:
        try:
            await require_current_schema(settings.database_url)
            return await Database.open(
                settings.database_url, role=Role.WRITER, size=settings.workers + 2, deadline=_DATABASE_SECONDS
            )
        except (StartupError, Unavailable) as error:
            if time.monotonic() > deadline:
                raise
            health.detail = str(error)
            _log.warning("waiting_for_database", reason=str(error))
            await asyncio.sleep(2)


def _identity(settings: OperatorSettings) -> str:
    return settings.pod_name or f"{socket.gethostname()}-{os.getpid()}"
