"""What the leading operator does for documents all the time: runbooks, past incidents, vectors; and for alert rules.

`runtime` runs it beside the reconcilers. Sections of workflows are written with their workflow.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import structlog

from formulary_catalog.errors import FormularyError
from formulary_catalog.store.alert_rules import AlertRuleWriter
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.knowledge.documents import DocumentVectors
from formulary_catalog.store.knowledge.incidents import IncidentDocuments
from formulary_catalog.store.knowledge.runbooks import RunbookWriter
from formulary_operator.knowledge.alert_rules import EVERYWHERE, AlertRules
from formulary_operator.knowledge.runbooks import Runbooks
from formulary_operator.kube.client import KubeClient
from formulary_operator.settings import OperatorSettings
from formulary_operator.watch.queue import ObjectKey, WorkQueue
from formulary_operator.workflows.embedding import Embedding

_RUNBOOK_SECONDS = 30.0
_RULE_SECONDS = 60.0
_INCIDENT_SECONDS = 30.0
_VECTOR_SECONDS = 10.0
_AT_ONCE = 31
_BUSY_SECONDS = 60.0
"""For so long sections wait for workflows: without a vector of its own a section is still found by its words."""
_log = structlog.get_logger(__name__)


class Documents:
    """Keeps the collections in step with their sources. A failure is logged, and tried again at the next turn."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        client: KubeClient,
        database: Database,
        embedding: Embedding,
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self._embedding = embedding
        self._queue = queue
        self._vectors = DocumentVectors(database)
        self._incidents = IncidentDocuments(database)
        self._runbooks = Runbooks(namespaces=settings.runbook_namespaces, client=client, writer=RunbookWriter(database))
        self._rules = AlertRules(
            namespaces=(settings.watch_namespaces or EVERYWHERE) if settings.prometheus_rules else (),
            client=client,
            writer=AlertRuleWriter(database),
        )

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What has to be done all the time."""
        return [
            _keep(self._runbooks.compare, every_seconds=_RUNBOOK_SECONDS, name="runbooks"),
            _keep(self._rules.compare, every_seconds=_RULE_SECONDS, name="alert rules"),
            _keep(self._read_incidents, every_seconds=_INCIDENT_SECONDS, name="incidents"),
            _keep(self._embed, every_seconds=_VECTOR_SECONDS, name="vectors"),
        ]

    async def _read_incidents(self) -> None:
        while await self._incidents.catch_up():
            pass

    async def _embed(self) -> None:
        """Embed what has no vector, until there is nothing left or no embedder; workflows that wait go first."""
        model_id = await self._embedding.model_id()
        after = ""
        while model_id and (texts := await self._vectors.unembedded(model_id, after=after, limit=_AT_ONCE)):
            with suppress(TimeoutError):
                async with asyncio.timeout(_BUSY_SECONDS):
                    await self._queue.settled()
            vectors: dict[str, npt.NDArray[np.float32]] = {}
            for text_hash, text in texts.items():
                vector = await self._embedding.vector(text, model_id=model_id)
                if vector is not None:
                    vectors[text_hash] = vector
            await self._vectors.save(model_id, vectors)
            if not vectors:
                return
            after = max(texts)


async def _keep(work: Callable[[], Awaitable[None]], *, every_seconds: float, name: str) -> None:
    while True:
        try:
            await work()
        except Superseded:
            raise
        except FormularyError as error:
            _log.warning("documents_failed", work=name, reason=str(error))
        except Exception as error:  # documents are never a reason not to serve workflows
            _log.error("documents_crashed", work=name, exc_info=error)
        await asyncio.sleep(every_seconds)
