"""Keeps a running catalog in step with its files: loads again whenever they change, and logs what that changed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import structlog
from watchfiles import Change, awatch

from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import FormularyError
from formulary_catalog.loading.documents import Rejection
from formulary_catalog.loading.loader import Loader
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.runtime.standalone import Standalone

_DEBOUNCE_MS = 400
_RETRY_MS = 5000
_log = structlog.get_logger(__name__)


async def follow(catalog: Standalone, *, first: LoadReport) -> None:
    """Load again on every change of the manifests after the first load, until it is cancelled."""
    before = first.rejections
    vectors = catalog.parts.vectors
    async for outcome in watch(catalog.loader, embedder=lambda: vectors.embedder):
        if isinstance(outcome, FormularyError):
            _log.error("load_failed", reason=str(outcome))
            continue
        catalog.parts.metrics.set_contexts(outcome.contexts)
        _report_rejections(outcome.rejections, before=before)
        _report_changes(outcome)
        before = outcome.rejections


async def watch(
    loader: Loader, *, embedder: Callable[[], Embedder | None]
) -> AsyncGenerator[LoadReport | FormularyError, None]:
    """The report, or the error, of a load for each change of the files, until the iteration is cancelled.

    Changes in quick succession are one. A load that failed is tried again every 5 s, because what made it fail, such
    as a database that was away, changes no file. The first report covers what changed before the watch began.
    """
    stale = True
    while True:
        changes = awatch(*loader.roots, debounce=_DEBOUNCE_MS, rust_timeout=_RETRY_MS, yield_on_timeout=True)
        try:
            async with aclosing(changes):
                async for changed in changes:
                    if not changed and not stale:
                        continue
                    outcome = await _load(loader, embedder=embedder())
                    # A watch ends with its directory; a new one is needed for what has taken its place.
                    stale = isinstance(outcome, FormularyError) or _lost_root(changed, roots=loader.roots)
                    yield outcome
                    if stale:
                        break
        except FileNotFoundError:
            await asyncio.sleep(_RETRY_MS / 1000)


def _report_rejections(rejections: Sequence[Rejection], *, before: Sequence[Rejection]) -> None:
    shown = {rejection.message for rejection in before}
    for message in sorted({rejection.message for rejection in rejections} - shown):
        _log.warning("rejected", reason=message, still_served="the last valid content, if there was one")
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


async def _load(loader: Loader, *, embedder: Embedder | None) -> LoadReport | FormularyError:
    try:
        return await loader.load(embedder=embedder)
    except FormularyError as error:
        return error


def _lost_root(changed: set[tuple[Change, str]], *, roots: tuple[Path, ...]) -> bool:
    deleted = {path for change, path in changed if change is Change.deleted}
    return any(str(root) in deleted or str(root.absolute()) in deleted for root in roots)
