"""Keeps a running catalog in step with its files, and says in the log what that changed."""

from collections.abc import Sequence

import structlog

from formulary_catalog.errors import FormularyError
from formulary_catalog.loading.documents import Rejection
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.loading.watch import watch
from formulary_catalog.runtime.standalone import Standalone

_log = structlog.get_logger(__name__)


async def follow(catalog: Standalone, *, first: LoadReport) -> None:
    """Load again on every change of the manifests after the first load, until it is cancelled."""
    before = first.rejections
    service = catalog.service
    async for outcome in watch(catalog.loader, embedder=lambda: service.embedder):
        if isinstance(outcome, FormularyError):
            _log.error("load_failed", reason=str(outcome))
            continue
        catalog.metrics.set_contexts(outcome.contexts)
        _report_rejections(outcome.rejections, before=before)
        _report_changes(outcome)
        before = outcome.rejections


def _report_rejections(rejections: Sequence[Rejection], *, before: Sequence[Rejection]) -> None:
    shown = {rejection.message for rejection in before}
    for message in sorted({rejection.message for rejection in rejections} - shown):
        _log.warning("rejected", reason=message)
    for source in sorted({each.source for each in before} - {each.source for each in rejections}):
        _log.info("no_longer_rejected", source=source)


def _report_changes(report: LoadReport) -> None:
    if report.changed:
        changes = {
            "created": report.created,
            "updated": report.updated,
            "removed": report.removed,
            "contexts": report.changed_contexts,
            "contexts_removed": report.removed_contexts,
            "contracts": report.changed_contracts,
            "contracts_removed": report.removed_contracts,
        }
        _log.info("catalog_changed", **{kind: names for kind, names in changes.items() if names})
