"""The read side on a database that others feed. What `serve`, `stdio` and the read commands run on."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.metrics import Metrics
from formulary_catalog.runtime.background import background
from formulary_catalog.runtime.model_loading import Loaded, start_loading
from formulary_catalog.runtime.model_registry import Embedders
from formulary_catalog.search.service import CatalogService
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.database.connection import DEADLINE
from formulary_catalog.store.database.migrate import require_current_schema
from formulary_catalog.store.embedding_models import ModelStore


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCatalog:
    """An open catalog. `problem` says why searches rank by words alone, where they should not."""

    service: CatalogService
    metrics: Metrics
    problem: EmbedderUnavailable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCatalog:
    """A catalog that can be served before its database is there; calls fail until then."""

    service: CatalogService
    metrics: Metrics
    dsn: str
    settings: Settings

    async def check_database(self) -> None:
        """Find out whether the database can be used.

        Raises:
            StartupError, Unavailable: it cannot, or its schema is not that of this version.
        """
        await require_current_schema(self.dsn)
        await self.service.connect()

    def embedders(self) -> Embedders:
        """The embedders of the catalog's models, not loaded yet.

        After the database is there: a process that ends while its model is being loaded may crash.
        """
        return _embedders(self.service, settings=self.settings, own=start_loading(self.settings))


def _embedders(service: CatalogService, *, settings: Settings, own: Awaitable[Loaded]) -> Embedders:
    parts = service.parts
    return Embedders(parts.vectors, models=ModelStore(parts.database), settings=settings, own=own)


@asynccontextmanager
async def pending_catalog(settings: Settings, *, dsn: str, policy: ContextPolicy) -> AsyncIterator[PendingCatalog]:
    """Prepare the catalog of a database that need not be there yet. The settings go before `policy`."""
    metrics = Metrics()
    service = await CatalogService.unconnected(
        dsn=dsn, settings=settings, policy=settings.request_context or policy, metrics=metrics
    )
    try:
        yield PendingCatalog(service=service, metrics=metrics, dsn=dsn, settings=settings)
    finally:
        await service.close()


@asynccontextmanager
async def open_catalog(
    settings: Settings,
    *,
    dsn: str,
    policy: ContextPolicy,
    by_meaning: bool = True,
    deadline: float = DEADLINE,
    metrics: Metrics | None = None,
) -> AsyncIterator[OpenCatalog]:
    """Open the catalog of a database; `by_meaning` loads the embedding model. The settings go before `policy`.

    `deadline` is in seconds, for each question to the database.

    Raises:
        StartupError, Unavailable: the database cannot be used, or its schema is not that of this version.
    """
    own = start_loading(settings) if by_meaning else None
    await require_current_schema(dsn)
    metrics = metrics or Metrics()
    policy = settings.request_context or policy
    service = await CatalogService.create(dsn=dsn, settings=settings, policy=policy, metrics=metrics, deadline=deadline)
    try:
        if own is None:
            yield OpenCatalog(service=service, metrics=metrics)
            return
        embedders = _embedders(service, settings=settings, own=own)
        await embedders.refresh()
        async with background(embedders.keep_fresh()):
            yield OpenCatalog(service=service, metrics=metrics, problem=embedders.problem)
    finally:
        await service.close()
