"""A catalog that needs nothing else: its own PostgreSQL, its model, its manifests. What `up` and `stdio` run on.

In the background it makes vectors of workflows and documents that have none, and documents of ended incidents.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.endpoint import is_remote
from formulary_catalog.errors import EmbedderUnavailable, Unavailable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.search.vectors import QueryVectors
from formulary_catalog.loading.files import example_targets, find_manifests, find_runbooks, starter_catalog
from formulary_catalog.loading.loader import Loader
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.loading.runbooks import RunbookLoader
from formulary_catalog.loading.targets import ManifestTargets, target_contexts
from formulary_catalog.loading.vectors import Reembedding, reembed, unembedded
from formulary_catalog.metrics import Metrics
from formulary_catalog.runtime import databases
from formulary_catalog.runtime.display import Display
from formulary_catalog.runtime.model_watch import LOOK_SECONDS, RETRY_SECONDS, Loaded, ModelWatch, start_loading
from formulary_catalog.runtime.process import background
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.audit.checkpoints import CheckpointStore, keep_checkpointing
from formulary_catalog.store.audit.keys import signing_key
from formulary_catalog.store.audit.publishing import keep_publishing, place_of
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.knowledge.incidents import IncidentDocuments
from formulary_catalog.store.knowledge.runbooks import RunbookWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.input_keys import input_keys
from formulary_catalog.store.workflows.reembedding import ReembeddingStore
from formulary_catalog.store.workflows.writer import CatalogWriter

_WRITE_SECONDS = 60.0
_CHECKPOINT_SECONDS = 60.0
_OWNER = "postgres"
_ORIGIN = "file"
_MOST_SECONDS_BETWEEN = 60.0
_UNREADABLE = "This release cannot read some manifests that an earlier one took; `formulary validate` says why."
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """A catalog that can be served; it holds what an earlier run left until it is loaded."""

    parts: CatalogParts
    loader: Loader
    runbooks: RunbookLoader
    filling: "Filling"
    model: Awaitable[Loaded]
    writing: Database
    writer_dsn: str = field(repr=False)
    settings: Settings
    background_work: AsyncExitStack

    async def load(self, *, display: Display) -> LoadReport:
        """Wait for the model and load the manifests for the first time.

        A catalog of our own is changed to the model of the settings before.

        Raises:
            StartupError, Unavailable: something needed is not to be had.
        """
        vectors, settings = self.parts.vectors, self.settings
        watch = ModelWatch(
            vectors,
            models=ModelStore(self.parts.database),
            settings=settings,
            own=self.model,
            claim=partial(self._claim, display=display),
            retry_seconds=LOOK_SECONDS if is_remote(settings.embedding_model) else RETRY_SECONDS,
        )
        await watch.refresh()
        if watch.problem is not None:
            display.problem(f"searches rank by words alone (mode lexical): {watch.problem}")
        report = await self.loader.load(embedder=vectors.embedder, progress=display.progress)
        display.report(report)
        for rejection in (await self.runbooks.load()).rejections:
            display.problem(f"rejected: {rejection.message}")
        self.parts.metrics.set_contexts(report.contexts)
        await self.background_work.enter_async_context(background(watch.keep_fresh()))
        self.filling.problem = report.unembedded
        await self.background_work.enter_async_context(background(self.filling.keep_filling()))
        return report

    async def summary(self) -> tuple[int, str]:
        """How many workflows are served, and how they are ranked: `hybrid` or `lexical`.

        Raises:
            Unavailable: the database does not answer.
        """
        served = (await self.parts.workflows.counts()).get("Active", 0)
        return served, SearchMode.HYBRID if self.parts.vectors.embedder is not None else SearchMode.LEXICAL

    async def _claim(self, embedder: Embedder, *, display: Display) -> None:
        """Make this the model of the catalog, which is changed only if it is ours and nobody else's.

        Raises:
            EmbedderUnavailable: it cannot be changed now.
        """
        try:
            serving = await ModelStore(self.writing).adopt(embedder.model_id)
            if serving == embedder.model_id or self.settings.database_url:
                return
            await reembed(self.writer_dsn, embedder=embedder, progress=display.progress)
        except Unavailable as error:
            raise EmbedderUnavailable(f"The catalog cannot be changed to {embedder.model_id} yet: {error}") from error
        display.step(f"changed from the embedding model {serving} to {embedder.model_id}")


@asynccontextmanager
async def standalone(
    settings: Settings,
    *,
    manifests: Sequence[Path],
    display: Display,
    examples: bool = False,
    runbooks: Sequence[Path] = (),
    kube_context: str = "",
    metrics: Metrics | None = None,
) -> AsyncIterator[Standalone]:
    """Start everything up to the load of the manifests, and stop what was started.

    Without manifests these are the starter catalog, and the example targets if `examples` asks for them: an agent that
    names one of its own must get an error that it is not known, not an answer from an example.
    `kube_context` is the context of the kubeconfig where the settings have targets read from a cluster; empty for the
    current one.

    Raises:
        StartupError, Unavailable: something needed is not to be had.
    """
    roots = list(manifests) or [starter_catalog(), *([example_targets()] if examples else [])]
    await asyncio.to_thread(find_manifests, roots)  # a wrong path shall not cost a start
    await asyncio.to_thread(find_runbooks, runbooks)
    key = signing_key(settings)
    async with AsyncExitStack() as stack:
        model = start_loading(settings)
        dsn_of = await _database(settings, stack=stack, display=display)
        await asyncio.to_thread(migrate, dsn_of(_OWNER))
        writing = await Database.open(dsn_of(Role.WRITER), role=Role.WRITER, size=2, deadline=_WRITE_SECONDS)
        stack.push_async_callback(writing.close)
        vouched = CheckpointStore(writing)
        vouching = keep_checkpointing(vouched, every_seconds=_CHECKPOINT_SECONDS, key=key)
        await stack.enter_async_context(background(vouching))
        if (place := place_of(settings.audit_published)) is not None:
            publishing = keep_publishing(vouched, place, every_seconds=_CHECKPOINT_SECONDS)
            await stack.enter_async_context(background(publishing))
        in_manifests = ManifestTargets(default_namespace=settings.catalog_namespace)
        targets = await stack.enter_async_context(
            target_contexts(settings, otherwise=in_manifests, kube_context=kube_context)
        )
        loader = Loader(
            roots,
            catalog=CatalogWriter(writing),
            contexts=ContextWriter(writing),
            contracts=ContractWriter(writing, shared_namespace=settings.catalog_namespace),
            default_namespace=settings.catalog_namespace,
            targets=in_manifests,
            sources=IncidentSourceWriter(writing, origin=_ORIGIN, keys=input_keys(settings)),
            owns_contexts=not settings.database_url,
        )
        opening = CatalogParts.unconnected(
            dsn=dsn_of(Role.SERVER),
            settings=settings,
            policy=settings.request_context or ContextPolicy.OPTIONAL,
            metrics=metrics or Metrics(),
            targets=targets,
        )
        parts = await stack.enter_async_context(opening)
        await parts.database.connect()
        await databases.report_sessions(parts.database, settings=settings)
        background_work = await stack.enter_async_context(AsyncExitStack())
        yield Standalone(
            parts=parts,
            loader=loader,
            runbooks=RunbookLoader(runbooks, writer=RunbookWriter(writing), namespace=settings.catalog_namespace),
            filling=Filling(parts.vectors, writing=writing),
            model=model,
            writing=writing,
            writer_dsn=dsn_of(Role.WRITER),
            settings=settings,
            background_work=background_work,
        )


async def _database(settings: Settings, *, stack: AsyncExitStack, display: Display) -> Callable[[str], str]:
    """The DSN for each user. A named database has one user for all, who then takes on the roles."""
    if settings.database_url:
        return lambda _: settings.database_url
    postgres = databases.embedded(settings)
    display.step(f"starting PostgreSQL in {databases.describe_database(settings)}")
    await databases.start(postgres, stack=stack)
    await stack.enter_async_context(background(databases.supervise(postgres)))
    return lambda user: postgres.dsn(user=user)


class Filling:
    """Sees to it that no workflow and no document stays without a vector of the model that serves.

    It takes them from the catalog, not from files: what is served changes only where somebody asks for it.
    """

    def __init__(self, vectors: QueryVectors, *, writing: Database) -> None:
        self._vectors = vectors
        self._writing = writing
        self._store = ReembeddingStore(writing)
        self._incidents = IncidentDocuments(writing)
        self._documents_left = 0
        """How many documents have no vector after all was tried: the model may refuse some, which words still find."""
        self.problem = ""
        """How many workflows lack a vector, and why; empty if none, or without a model, which is reported elsewhere."""

    async def keep_filling(self) -> None:
        """Look every few seconds until cancelled; later each time while that brings nothing to an end."""
        pause = LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            with suppress(Unavailable):  # which is reported elsewhere
                await self._incidents.catch_up()
            problem = await self._fill()
            if problem not in ("", self.problem):
                _log.warning("workflows_without_vector", reason=problem)
            self.problem = problem
            pause = min(2 * pause, _MOST_SECONDS_BETWEEN) if problem or self._documents_left else LOOK_SECONDS

    async def _fill(self) -> str:
        """Embed what is missing; what is still missing then, and why."""
        embedder = self._vectors.embedder
        if embedder is None:
            return ""
        try:
            model_id = embedder.model_id
            if not await self._store.unranked(model_id) and not await self._store.documents.unranked(model_id):
                return ""
            reason = await self._complete(Reembedding(self._writing, embedder=embedder))
            missing = await self._store.unranked(model_id)
            self._documents_left = await self._store.documents.unranked(model_id)
        except Unavailable:  # the database, which is reported elsewhere, or another process is at it
            return self.problem
        return unembedded(missing, because=reason) if missing and reason else ""

    async def _complete(self, reembedding: Reembedding) -> str:
        """Why not all could be embedded; empty if they could."""
        try:
            report = await reembedding.complete()
        except EmbedderUnavailable as error:
            return str(error)
        if texts := report.embedded + report.documents:
            _log.info("embedded_later", texts=texts)
        return report.refusal or (_UNREADABLE if report.unreadable else "")
