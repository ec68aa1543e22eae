"""The catalog for tests; to most of them the deadline of the database does not matter."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.surroundings import TargetReader
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.metrics import Metrics
from formulary_catalog.operations.services import Services
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import ContextPolicy, Settings

PATIENT = 120.0
"""Seconds for each question to the database: machines stand still at times, for longer than callers are to wait."""


@asynccontextmanager
async def open_parts(
    dsn: str,
    *,
    embedder: Embedder | None = None,
    policy: ContextPolicy = ContextPolicy.OPTIONAL,
    metrics: Metrics | None = None,
    targets: TargetReader | None = None,
    deadline: float = PATIENT,
    **settings: Any,
) -> AsyncIterator[CatalogParts]:
    """What the services on this database share."""
    async with CatalogParts.unconnected(
        dsn=dsn,
        settings=Settings(**settings),
        policy=policy,
        metrics=metrics or Metrics(),
        targets=TargetContexts(targets, mapping=DEFAULT_MAPPING),
        deadline=deadline,
    ) as parts:
        await parts.database.connect()
        parts.vectors.use(embedder)
        yield parts


def service_on(parts: CatalogParts) -> CatalogService:
    """Searches, details and selections, as every edge has them."""
    return Services.on(parts, settings=Settings()).catalog
