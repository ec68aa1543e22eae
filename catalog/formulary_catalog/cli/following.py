"""Keeps a running catalog in step with its files, and says in the log what that changed."""

import structlog

from formulary_catalog.cli.standalone import Standalone
from formulary_catalog.errors import FormularyError
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.loading.watch import watch

_log = structlog.get_logger(__name__)


async def follow(catalog: Standalone, *, first: LoadReport) -> None:
    """Load again on every change of the manifests after the first load, until it is cancelled."""
    known = {rejection.message for rejection in first.rejections}
    service = catalog.service
    async for outcome in watch(catalog.loader, embedder=lambda: service.embedder):
        if isinstance(outcome, FormularyError):
            _log.error("load_failed", reason=str(outcome))
            continue
        catalog.metrics.set_contexts(outcome.contexts)
        rejected = {rejection.message for rejection in outcome.rejections}
        _tell(outcome, new_rejections=sorted(rejected - known))
        known = rejected


def _tell(report: LoadReport, *, new_rejections: list[str]) -> None:
    for message in new_rejections:
        _log.warning("rejected", reason=message)
    if report.changed:
        changes = {
            "created": report.created,
            "updated": report.updated,
            "removed": report.removed,
            "contexts": report.changed_contexts,
            "contexts_removed": report.removed_contexts,
        }
        _log.info("catalog_changed", **{kind: names for kind, names in changes.items() if names})
