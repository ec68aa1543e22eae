"""The read side of the catalog for tests to which the database's deadline does not matter."""

from typing import Any

from formulary_catalog.embedding import Embedder
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.settings import ContextPolicy, Settings

PATIENT = 30.0
"""Seconds for each question to the database: machines stand still at times, for longer than callers are to wait."""


async def open_service(
    dsn: str,
    *,
    embedder: Embedder | None = None,
    policy: ContextPolicy = ContextPolicy.OPTIONAL,
    metrics: Metrics | None = None,
    **settings: Any,
) -> CatalogService:
    """The read side of this database; to be closed."""
    return await CatalogService.create(
        dsn=dsn,
        settings=Settings(**settings),
        policy=policy,
        metrics=metrics or Metrics(),
        embedder=embedder,
        deadline=PATIENT,
    )
