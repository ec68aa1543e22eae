"""The read side on a database that others feed. What `serve`, `stdio` and the read commands run on."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.loading.targets import target_contexts
from formulary_catalog.metrics import Metrics
from formulary_catalog.runtime.databases import report_sessions
from formulary_catalog.runtime.model_watch import Loaded, ModelWatch, start_loading
from formulary_catalog.runtime.process import background
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.database.connection import DEADLINE
from formulary_catalog.store.database.migrate import require_current_schema
from formulary_catalog.store.database.owner import require_plain_login
from formulary_catalog.store.embedding_models import ModelStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCatalog:
    """A catalog that can be served before its database is there; calls fail until then."""

    parts: CatalogParts
    dsn: str
    settings: Settings

    async def check_database(self) -> None:
        """Find out whether the database can be used.

        Raises:
            PrivilegedLogin: the user of the connection could undo row-level security.
            StartupError, Unavailable: it cannot, or its schema is not that of this version.
        """
        await require_current_schema(self.dsn)
        await self.parts.database.connect()
        await require_plain_login(self.parts.database)
        await report_sessions(self.parts.database, settings=self.settings)

    def model_watch(self) -> ModelWatch:
        """What gives searches their embedder, whose model is not loaded yet.

        After the database is there: a process that ends while its model is being loaded may crash.
        """
        return _model_watch(self.parts, settings=self.settings, own=start_loading(self.settings))


def _model_watch(parts: CatalogParts, *, settings: Settings, own: Awaitable[Loaded]) -> ModelWatch:
    return ModelWatch(parts.vectors, models=ModelStore(parts.database), settings=settings, own=own)


@asynccontextmanager
async def pending_catalog(settings: Settings, *, dsn: str, policy: ContextPolicy) -> AsyncIterator[PendingCatalog]:
    """Prepare the catalog of a database that need not be there yet. The settings go before `policy`."""
    policy = settings.request_context or policy
    async with (
        target_contexts(settings) as targets,
        CatalogParts.unconnected(
            dsn=dsn, settings=settings, policy=policy, metrics=Metrics(), targets=targets
        ) as parts,
    ):
        yield PendingCatalog(parts=parts, dsn=dsn, settings=settings)


@asynccontextmanager
async def open_catalog(
    settings: Settings,
    *,
    dsn: str,
    policy: ContextPolicy,
    by_meaning: bool = True,
    deadline: float = DEADLINE,
    metrics: Metrics | None = None,
) -> AsyncIterator[CatalogParts]:
    """Open the catalog of a database; `by_meaning` loads the embedding model. The settings go before `policy`.

    `deadline` is in seconds, for each question to the database.

    Raises:
        StartupError, Unavailable: the database cannot be used, or its schema is not that of this version.
    """
    own = start_loading(settings) if by_meaning else None
    await require_current_schema(dsn)
    policy = settings.request_context or policy
    metrics = metrics or Metrics()
    async with (
        target_contexts(settings) as targets,
        CatalogParts.unconnected(
            dsn=dsn, settings=settings, policy=policy, metrics=metrics, targets=targets, deadline=deadline
        ) as parts,
    ):
        await parts.database.connect()
        if own is None:
            yield parts
            return
        watch = _model_watch(parts, settings=settings, own=own)
        await watch.refresh()
        async with background(watch.keep_fresh()):
            yield parts
