"""Compares the whole cluster with the whole catalog and queues what differs.

`runtime` runs it at the start and every few minutes, the watch asks for it after a gap. It repairs deletions that
nobody watched, gaps after a 410, a restored database and edited statuses.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

import structlog

from formulary_catalog.domain.stored import RefusedWorkflow, StoredWorkflow
from formulary_catalog.errors import EmbedderUnavailable, FormularyError
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.resyncs import ResyncWriter
from formulary_catalog.store.workflows.refusals import RefusalWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.api.names import ANALYSES, WORKFLOWS, Json, Resource
from formulary_operator.kube.client import KubeClient
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.runs.expiry import ListedObjects
from formulary_operator.settings import OperatorSettings
from formulary_operator.sources.reconciler import SourceReconciler
from formulary_operator.watch.drift import Key, by_key, is_adrift
from formulary_operator.watch.queue import CATALOG_KINDS, ObjectKey, Priority, WorkQueue, key_of, pause_after
from formulary_operator.watch.sweep_guard import SweepGuard
from formulary_operator.wiring import RunWiring
from formulary_operator.workflows.embedding import Embedding
from formulary_operator.workflows.kept_fields import KeptFields
from formulary_operator.workflows.translate import SOURCE, context_of

_APART_SECONDS = 5.0
"""Between two resyncs, however often somebody asks: a listing asks once for each object in it."""
_EMPTINESS_SECONDS = 10.0
_log = structlog.get_logger(__name__)


class _Compared(NamedTuple):
    """How many objects of a kind were listed, and how many keys were queued because they differ."""

    listed: int
    differed: int


class Resync:
    """Runs at the start, every few minutes, and when somebody asks for it."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        name: str,
        client: KubeClient,
        catalog: CatalogWriter,
        refusals: RefusalWriter,
        resyncs: ResyncWriter,
        contexts: ContextWriter,
        embedding: Embedding,
        kept_fields: KeptFields,
        executor: RunWiring,
        sources: SourceReconciler,
        queue: WorkQueue[ObjectKey],
        guard: SweepGuard,
        metrics: OperatorMetrics,
    ) -> None:
        self._settings = settings
        self._name = name
        self._namespaces = settings.watch_namespaces or ("",)
        self._client = client
        self._catalog = catalog
        self._refusals = refusals
        self._resyncs = resyncs
        self._contexts = contexts
        self._embedding = embedding
        self._kept_fields = kept_fields
        self._executor = executor
        self._sources = sources
        self._queue = queue
        self._guard = guard
        self._metrics = metrics
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have a resync run soon: something may have been missed."""
        self._asked.set()

    async def keep_running(self, *, done: Callable[[], None]) -> None:
        """Resync again and again; `done` is called after each that succeeded.

        Raises:
            Superseded: another operator leads.
        """
        failures = 0
        while True:
            self._asked.clear()
            try:
                await self.run()
            except Superseded:
                raise
            except Exception as error:
                failures += 1
                self._report_failure(error)
                await asyncio.sleep(pause_after(failures, jitter=random.random()))
                continue
            failures = 0
            done()
            await self._until_next()

    async def notice_emptiness(self) -> None:
        """Ask for a resync when nothing of a kind is left: kopf reports an empty listing to nobody."""
        kinds = (*CATALOG_KINDS, *self._executor.kinds, *self._sources.kinds)
        places = [resource.path(namespace=namespace) for resource in kinds for namespace in self._namespaces]
        empty = set(places)  # what is empty at the start, the first resync sees
        while True:
            await asyncio.sleep(_EMPTINESS_SECONDS)
            with suppress(FormularyError):  # whatever does not answer is reported by those who need it
                for place in places:
                    if not await self._client.is_empty(place):
                        empty.discard(place)
                    elif place not in empty:
                        empty.add(place)
                        self.ask()

    async def notice_allowance(self) -> None:
        """Ask for a resync when somebody has allowed a sweep that was refused."""
        while True:
            await self._guard.allowed()
            self.ask()

    async def run(self) -> None:
        """Compare everything once, and queue what differs.

        Raises:
            FormularyError: the list is incomplete or the database does not answer. Nothing was swept then.
        """
        started = time.monotonic()
        # Incidents first: calls for one that is not known yet fail.
        compared = [await self._analyses(), await self._workflows()]
        compared += [await self._of_sources(resource) for resource in self._sources.kinds]
        if kinds := self._executor.kinds:
            objects = ListedObjects()
            compared += [await self._of_runs(resource, objects=objects) for resource in kinds]
            await self._executor.expiry.expire(objects)
        listed, differed = (sum(counts) for counts in zip(*compared, strict=True))
        await self._resyncs.note(
            self._name,
            listed=listed,
            differed=differed,
            refused=self._guard.refused,
            every_seconds=self._settings.resync_seconds,
        )
        self._metrics.resynced(seconds=time.monotonic() - started)
        _log.info("resynced", listed=listed, queued=differed, seconds=round(time.monotonic() - started, 2))

    async def _until_next(self) -> None:
        await asyncio.sleep(min(_APART_SECONDS, self._settings.resync_seconds))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, self._settings.resync_seconds - _APART_SECONDS)):
                await self._asked.wait()

    def _report_failure(self, error: Exception) -> None:
        self._metrics.resync_failures.inc()
        if isinstance(error, FormularyError):
            _log.warning("resync_failed", reason=str(error))
        else:
            _log.error("resync_crashed", exc_info=error)

    async def _workflows(self) -> _Compared:
        # Read before the list is: what is created meanwhile can then be in the list alone, and is no orphan.
        served = await self._catalog.served()
        if watched := self._settings.watch_namespaces:
            # Not by the queue: in a namespace that is watched no more, the object may not be read.
            await self._refusals.keep_only(watched)
        noted = {(refusal.namespace, refusal.name): refusal for refusal in await self._refusals.noted()}
        known = by_key(served, source=SOURCE, namespaces=watched)
        self._report_strays(served, known=known)
        model_id = await self._embedding.model_id()
        seen: set[Key] = set()
        drifted: set[ObjectKey] = set()
        async for page in self._pages(WORKFLOWS):
            if page and not seen:
                await self._kept_fields.find_out(page)
            seen |= {(document["metadata"]["namespace"], document["metadata"]["name"]) for document in page}
            drifted |= await asyncio.to_thread(
                _adrift,
                page,
                known=known,
                noted=noted,
                kept=self._kept_fields.names,
                model_id=model_id,
                problem=self._embedding.problem,
            )
        orphans = await self._guard.orphans(known, seen=seen)
        if self._guard.removes_allowed:
            self.ask()  # soon again: once all are removed, the allowance ends and nothing differs
        # Of what is served as well, the guard decides.
        gone = orphans | {key for key in noted if key not in seen and key not in known}
        differed = self._send(WORKFLOWS, drifted | {ObjectKey(WORKFLOWS.plural, *key) for key in gone})
        return _Compared(len(seen), differed)

    async def _analyses(self) -> _Compared:
        known = await self._contexts.stored()
        seen: set[Key] = set()
        drifted: set[ObjectKey] = set()
        async for page in self._pages(ANALYSES):
            for document in page:
                key = key_of(ANALYSES, document)
                seen.add((key.namespace, key.name))
                try:
                    context = context_of(document)
                except (
                    Exception
                ):  # what is wrong with it is reported when it is reconciled, and holds up nobody else here
                    context = None
                if known.get((key.namespace, key.name)) != context:
                    drifted.add(key)
        gone = {key for key in known if key not in seen and self._watches(key[0])}
        await self._contexts.purge(gone_for_seconds=self._settings.context_retention_hours * 3600)
        self._metrics.contexts_stored.set(len(known))
        return _Compared(len(seen), self._send(ANALYSES, drifted | {ObjectKey(ANALYSES.plural, *key) for key in gone}))

    async def _of_runs(self, resource: Resource, *, objects: ListedObjects) -> _Compared:
        """Have those objects looked at about which something may be left to do; what differs are stored ones that are
        gone."""
        stored = {key for key in await self._executor.stored(resource) if self._watches(key[0])}
        listed = 0
        async for page in self._pages(resource):
            listed += len(page)
            for document in page:
                key = key_of(resource, document)
                objects.add(resource, document)
                stored.discard((key.namespace, key.name))
                if not self._executor.is_settled(resource, document):
                    self._queue.add(key, Priority.URGENT)
        return _Compared(listed, self._send(resource, {ObjectKey(resource.plural, *key) for key in stored}))

    async def _of_sources(self, resource: Resource) -> _Compared:
        """Have every source looked at, since its Secret may be another one; those that are gone differ."""
        stored = {key for key in await self._sources.stored() if self._watches(key[0])}
        listed = 0
        async for page in self._pages(resource):
            listed += len(page)
            for document in page:
                key = key_of(resource, document)
                stored.discard((key.namespace, key.name))
                self._queue.add(key, Priority.COMPARED)
        return _Compared(listed, self._send(resource, {ObjectKey(resource.plural, *key) for key in stored}))

    def _watches(self, namespace: str) -> bool:
        """Whether objects of this namespace are listed."""
        watched = self._settings.watch_namespaces
        return not watched or namespace in watched

    def _report_strays(self, served: Collection[StoredWorkflow], *, known: Mapping[Key, StoredWorkflow]) -> None:
        """Workflows of namespaces that are not watched any more are served until somebody removes them."""
        strays = {workflow.namespace for workflow in served if workflow.source == SOURCE} - {key[0] for key in known}
        if strays:
            _log.warning("unwatched_namespaces_are_served", namespaces=sorted(strays))

    async def _pages(self, resource: Resource) -> AsyncIterator[list[Json]]:
        for namespace in self._namespaces:
            async for page in self._client.pages(resource.path(namespace=namespace)):
                yield page

    def _send(self, resource: Resource, keys: set[ObjectKey]) -> int:
        """Queue what differs. What waits there already is late, not adrift; a pause of it ends."""
        drifted = {key for key in keys if key not in self._queue}
        for key in sorted(keys):
            self._queue.add(key, Priority.COMPARED if resource is WORKFLOWS else Priority.URGENT)
        self._metrics.set_drift(resource.plural, len(drifted))
        return len(drifted)


def _adrift(
    page: list[Json],
    *,
    known: Mapping[Key, StoredWorkflow],
    noted: Mapping[Key, RefusedWorkflow],
    kept: Collection[str],
    model_id: str,
    problem: EmbedderUnavailable | None,
) -> set[ObjectKey]:
    adrift = set()
    for document in page:
        key = key_of(WORKFLOWS, document)
        try:
            differs = is_adrift(
                document,
                known.get((key.namespace, key.name)),
                noted=noted.get((key.namespace, key.name)),
                kept=kept,
                model_id=model_id,
                problem=problem,
            )
        except Exception:  # what is wrong with it is reported when it is reconciled, and holds up nobody else here
            differs = True
        if differs:
            adrift.add(key)
    return adrift
