"""Makes the stored request contexts what the AIAnalysis documents of the files say.

`loading.loader` calls it after each load, for `formulary up` and `formulary stdio`. It is the way of custom labels into
a catalog without a cluster; the operator's `incidents` is the one with a cluster.
"""

from collections.abc import Collection

from formulary_catalog.loading.documents import file_of
from formulary_catalog.loading.manifests import FoundContext, Manifests
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.store.incidents import ContextWriter


class ContextSync:
    """Remembers which contexts came from the files, because the store does not record where contexts came from.

    `owns_all` says that nobody else writes contexts to this database: then those of earlier runs are ours as well.
    """

    def __init__(self, contexts: ContextWriter, *, owns_all: bool) -> None:
        self._contexts = contexts
        self._owns_all = owns_all
        self._ours: dict[tuple[str, str], FoundContext | None] | None = None

    async def run(
        self, manifests: Manifests, *, complete: bool, broken_files: Collection[str], report: LoadReport
    ) -> None:
        """Write new and changed contexts and remove those that no file describes any more.

        Nothing is removed unless the files were listed completely, nor while the file it came from is broken.

        Raises:
            Unavailable: the database does not answer.
        """
        if self._ours is None:
            self._ours = dict.fromkeys(await self._contexts.stored()) if self._owns_all else {}
        for found in manifests.contexts:
            await self._save(found, ours=self._ours, report=report)
        described = {(found.context.namespace, found.context.name) for found in manifests.contexts}
        for key, earlier in list(self._ours.items()) if complete else ():
            if key in described or (earlier is not None and file_of(earlier.source) in broken_files):
                continue
            namespace, name = key
            await self._contexts.remove(namespace=namespace, name=name)
            del self._ours[key]
            report.removed_contexts.append(f"{namespace}/{name}")
        report.contexts = len(self._ours)

    async def _save(
        self, found: FoundContext, *, ours: dict[tuple[str, str], FoundContext | None], report: LoadReport
    ) -> None:
        key = (found.context.namespace, found.context.name)
        earlier = ours.get(key)
        if earlier is None or earlier.context != found.context:
            await self._contexts.save(found.context)
            report.changed_contexts.append("/".join(key))
        ours[key] = found
