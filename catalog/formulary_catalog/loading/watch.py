"""Loads again whenever the files change."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

from watchfiles import Change, awatch

from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import FormularyError
from formulary_catalog.loading.loader import Loader
from formulary_catalog.loading.report import LoadReport

_DEBOUNCE_MS = 400
_RETRY_MS = 5000


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


async def _load(loader: Loader, *, embedder: Embedder | None) -> LoadReport | FormularyError:
    try:
        return await loader.load(embedder=embedder)
    except FormularyError as error:
        return error


def _lost_root(changed: set[tuple[Change, str]], *, roots: tuple[Path, ...]) -> bool:
    deleted = {path for change, path in changed if change is Change.deleted}
    return any(str(root) in deleted or str(root.absolute()) in deleted for root in roots)
