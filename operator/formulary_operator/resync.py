"""The comparison of the whole cluster with the whole catalog: what the watch missed is found and sent to be reconciled.

It heals deletions while nobody watched, gaps after a 410, a restored database and statuses that somebody edited.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import structlog

from formulary_catalog.errors import FormularyError, InvalidManifest
from formulary_catalog.store.catalog import CatalogWriter, StoredWorkflow
from formulary_catalog.store.contexts import ContextWriter
from formulary_operator.api.names import ANALYSES, WORKFLOWS, Resource
from formulary_operator.contexts import context_of
from formulary_operator.core.finding import stored
from formulary_operator.core.status import differs, wanted_status
from formulary_operator.core.sweep import Key, by_key, is_current, sweep
from formulary_operator.embedding import Embedding
from formulary_operator.kube.client import KubeClient
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.objects import ObjectKey, key_of
from formulary_operator.settings import OperatorSettings
from formulary_operator.workflows import SOURCE, entry_of
from formulary_operator.workqueue import WorkQueue

_RETRY_SECONDS = 5.0
_SETTLING_SECONDS = 1.0  # a listing asks once for each object in it
_log = structlog.get_logger(__name__)


class Resync:
    """Runs at the start, every few minutes, and when somebody asks for it."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        client: KubeClient,
        catalog: CatalogWriter,
        contexts: ContextWriter,
        embedding: Embedding,
        queue: WorkQueue[ObjectKey],
        metrics: OperatorMetrics,
    ) -> None:
        self._settings = settings
        self._client = client
        self._catalog = catalog
        self._contexts = contexts
        self._embedding = embedding
        self._queue = queue
        self._metrics = metrics
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have a resync run soon: something may have been missed."""
        self._asked.set()

    async def keep_running(self, *, done: Callable[[], Awaitable[None]]) -> None:
        """Resync again and again; `done` is called after each that succeeded."""
        while True:
            self._asked.clear()
            try:
                await self.run()
                await done()
                pause = self._settings.resync_seconds
            except FormularyError as error:
                self._metrics.resync_failures.inc()
                _log.warning("resync_failed", reason=str(error))
                pause = _RETRY_SECONDS
            try:
                async with asyncio.timeout(pause):
                    await self._asked.wait()
                await asyncio.sleep(_SETTLING_SECONDS)
            except TimeoutError:
                continue

    async def run(self) -> None:
        """Compare everything once, and queue what differs.

        Raises:
            FormularyError: the list is incomplete or the database does not answer. Nothing was swept then.
        """
        started = time.monotonic()
        drifted = await self._workflows() + await self._analyses()
        self._metrics.resynced(seconds=time.monotonic() - started)
        _log.info("resynced", queued=drifted, seconds=round(time.monotonic() - started, 2))

    async def _workflows(self) -> int:
        # Read before the list is: what is created meanwhile can then be in the list alone, and is no orphan.
        known = by_key(await self._catalog.served(), source=SOURCE, namespaces=self._settings.watch_namespaces)
        embedder = await self._embedding.embedder()
        model_id = embedder.model_id if embedder is not None else ""
        seen: set[Key] = set()
        drifted: set[ObjectKey] = set()
        async for page in self._pages(WORKFLOWS):
            differing = await asyncio.to_thread(_differing, page, known, model_id)
            seen |= {(document["metadata"]["namespace"], document["metadata"]["name"]) for document in page}
            drifted |= differing
        found = sweep(known, seen=seen, max_fraction=self._settings.sweep_max_fraction)
        self._metrics.sweep_refused.set(found.refused)
        if found.refused:
            _log.error(
                "sweep_refused",
                missing=found.refused,
                served=len(known),
                next_step="if so many workflows were really deleted, set FORMULARY_SWEEP_MAX_FRACTION=1 and restart",
            )
        return self._send(WORKFLOWS, drifted | {ObjectKey(WORKFLOWS.plural, *orphan) for orphan in found.orphans})

    async def _analyses(self) -> int:
        known = await self._contexts.stored()
        seen: set[Key] = set()
        drifted: set[ObjectKey] = set()
        async for page in self._pages(ANALYSES):
            for document in page:
                key = key_of(ANALYSES, document)
                seen.add((key.namespace, key.name))
                try:
                    context = context_of(document)
                except InvalidManifest:
                    context = None
                if known.get((key.namespace, key.name)) != context:
                    drifted.add(key)
        watched = self._settings.watch_namespaces
        gone = {key for key in known if key not in seen and (not watched or key[0] in watched)}
        await self._contexts.purge(gone_for_seconds=self._settings.context_retention_hours * 3600)
        self._metrics.contexts_stored.set(len(known))
        return self._send(ANALYSES, drifted | {ObjectKey(ANALYSES.plural, *key) for key in gone})

    async def _pages(self, resource: Resource) -> AsyncIterator[list[dict[str, Any]]]:
        for namespace in self._settings.watch_namespaces or ("",):
            async for page in self._client.pages(resource.path(namespace=namespace)):
                yield page

    def _send(self, resource: Resource, keys: set[ObjectKey]) -> int:
        """Queue what differs; what waits there already is late, not adrift."""
        drifted = {key for key in keys if key not in self._queue}
        for key in sorted(keys):
            self._queue.add(key)  # also ends a pause: catalog and API server have just answered
        self._metrics.set_drift(resource.plural, len(drifted))
        return len(drifted)


def _differing(page: list[dict[str, Any]], known: Mapping[Key, StoredWorkflow], model_id: str) -> set[ObjectKey]:
    return {key_of(WORKFLOWS, document) for document in page if _differs(document, known=known, model_id=model_id)}


def _differs(document: dict[str, Any], *, known: Mapping[Key, StoredWorkflow], model_id: str) -> bool:
    """Whether catalog or status are not what this object asks for. Refused content is looked at in full each time."""
    metadata = document["metadata"]
    try:
        entry = entry_of(document)
    except InvalidManifest:
        return True
    current = known.get((metadata["namespace"], metadata["name"]))
    if not is_current(entry, current, uid=metadata["uid"], model_id=model_id):
        return True
    return differs(document, wanted_status(document, stored(entry, model_id=model_id, problem=None), now=""))
