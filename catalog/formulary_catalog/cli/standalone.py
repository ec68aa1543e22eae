"""A catalog that needs nothing else: its own PostgreSQL, its model, its manifests. What `up` and `stdio` run on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from formulary_catalog.cli import databases
from formulary_catalog.cli.background import background
from formulary_catalog.cli.display import Display
from formulary_catalog.cli.models import start_loading
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import EmbedderUnavailable, FormularyError
from formulary_catalog.loading.files import find_manifests
from formulary_catalog.loading.loader import Loader
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.starter import starter_catalog
from formulary_catalog.store.audit_keys import signing_key
from formulary_catalog.store.catalog import CatalogWriter
from formulary_catalog.store.checkpoints import CheckpointStore, keep_checkpointing
from formulary_catalog.store.contexts import ContextWriter
from formulary_catalog.store.database import Database, Role
from formulary_catalog.store.embedded import EmbeddedPostgres
from formulary_catalog.store.migrate import migrate

_WRITE_SECONDS = 60.0
_SUPERVISION_SECONDS = 1.0
_CHECKPOINT_SECONDS = 60.0
_OWNER = "postgres"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """A catalog that can be served; it holds what an earlier run left until it is loaded."""

    service: CatalogService
    metrics: Metrics
    loader: Loader
    model: Awaitable[Embedder | EmbedderUnavailable]

    async def load(self, *, display: Display) -> LoadReport:
        """Wait for the model and load the manifests for the first time.

        Raises:
            StartupError, Unavailable: something needed is not to be had.
        """
        embedder = _usable(await self.model, display=display)
        report = await self.loader.load(embedder=embedder, progress=display.progress)
        display.report(report)
        self.metrics.set_contexts(report.contexts)
        self.service.use_embedder(embedder)
        return report


@asynccontextmanager
async def standalone(settings: Settings, *, manifests: Sequence[Path], display: Display) -> AsyncIterator[Standalone]:
    """Start everything up to the load of the manifests, and stop what was started.

    Raises:
        StartupError, Unavailable: something needed is not to be had.
    """
    roots = list(manifests) or [starter_catalog()]
    await asyncio.to_thread(find_manifests, roots)  # a wrong path shall not cost a start
    key = signing_key(settings)
    async with AsyncExitStack() as stack:
        model = start_loading(settings)
        dsn_of = await _database(settings, stack=stack, display=display)
        await asyncio.to_thread(migrate, dsn_of(_OWNER))
        writing = await Database.open(dsn_of(Role.WRITER), role=Role.WRITER, size=2, deadline=_WRITE_SECONDS)
        stack.push_async_callback(writing.close)
        vouching = keep_checkpointing(CheckpointStore(writing), every_seconds=_CHECKPOINT_SECONDS, key=key)
        await stack.enter_async_context(background(vouching))
        loader = Loader(
            roots,
            catalog=CatalogWriter(writing),
            contexts=ContextWriter(writing),
            default_namespace=settings.catalog_namespace,
            owns_contexts=not settings.database_url,
        )
        metrics = Metrics()
        service = await CatalogService.create(
            dsn=dsn_of(Role.SERVER),
            settings=settings,
            policy=settings.request_context or ContextPolicy.OPTIONAL,
            metrics=metrics,
        )
        stack.push_async_callback(service.close)
        yield Standalone(service=service, metrics=metrics, loader=loader, model=model)


async def _database(settings: Settings, *, stack: AsyncExitStack, display: Display) -> Callable[[str], str]:
    """The DSN for each user. A named database has one user for all, who then takes on the roles."""
    if settings.database_url:
        return lambda _: settings.database_url
    postgres = databases.embedded(settings)
    display.step("starting PostgreSQL")
    await databases.start(postgres, stack=stack)
    await stack.enter_async_context(background(_supervise(postgres)))
    return lambda user: postgres.dsn(user=user)


async def _supervise(postgres: EmbeddedPostgres) -> None:
    """Start PostgreSQL again whenever it dies under us."""
    while True:
        await asyncio.sleep(_SUPERVISION_SECONDS)
        try:
            if await asyncio.to_thread(postgres.restart_if_dead):
                _log.warning("postgres_restarted")
        except FormularyError as error:
            _log.error("postgres_does_not_start", reason=str(error))


def _usable(loaded: Embedder | EmbedderUnavailable, *, display: Display) -> Embedder | None:
    if isinstance(loaded, EmbedderUnavailable):
        display.problem(f"searches rank by words alone (mode lexical): {loaded}")
        return None
    return loaded
