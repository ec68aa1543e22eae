"""A server that owns its database changes to the model of its settings by itself, while it serves."""

import asyncio

import structlog

from formulary_catalog.cli.embedders import LOOK_SECONDS
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import Unavailable
from formulary_catalog.loading.reembedding import Reembedding
from formulary_catalog.store.database import Database, Role
from formulary_catalog.store.models import ModelStore
from formulary_catalog.store.reembedding import SWITCH_SECONDS, PreparationEnded, ReembeddingStore

_RETRY_SECONDS = 10.0
_log = structlog.get_logger(__name__)


async def change_model(dsn: str, *, embedder: Embedder, source: str) -> None:
    """Re-embed the catalog with this model; tried again for as long as that may help."""
    while True:
        try:
            async with Database.opened(dsn, role=Role.WRITER, size=1, deadline=SWITCH_SECONDS) as database:
                report = await Reembedding(
                    models=ModelStore(database),
                    store=ReembeddingStore(database),
                    embedder=embedder,
                    source=source,
                    notice_seconds=2 * LOOK_SECONDS,
                ).run()
            _log.info("model_changed", model=report.model_id, before=report.before, workflows=report.workflows)
            return
        except PreparationEnded as error:
            _log.warning("model_not_changed", reason=str(error))
            return
        except Unavailable as error:
            _log.warning("model_change_waits", reason=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
