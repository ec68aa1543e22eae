"""Makes the workflows of the catalog what the files say, one by one: a refused one never holds up the others.

`loading.loader` calls it with the sorted documents. In a cluster the operator's `workflows.reconciler` does the same
for objects; both write with `store.workflows.writer`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.domain.workflows.identity import precedence
from formulary_catalog.errors import InvalidManifest
from formulary_catalog.loading.documents import Rejection, file_of
from formulary_catalog.loading.manifests import Manifests
from formulary_catalog.loading.report import LoadingProgress, LoadReport
from formulary_catalog.store.workflows.writer import ApplyOutcome, CatalogWriter

_FROM_FILE = "file:"  # begins the stored source of what came from a file; only that is removed with its file


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSync:
    """One pass over the workflows. `stored` is what the catalog serves before it, by namespace and name.

    `broken_files` hold something that could not be accepted: what they gave us earlier stays as it is.
    """

    catalog: CatalogWriter
    stored: Mapping[tuple[str, str], StoredWorkflow]
    broken_files: Collection[str]
    model_id: str
    report: LoadReport

    async def suspend(self, manifests: Manifests) -> None:
        """Write what is suspended: it is not searched for, and needs no vector.

        Raises:
            Unavailable: the database does not answer.
        """
        for entry in manifests.served:
            if entry.workflow.spec.suspend:
                await self._write(entry)

    async def apply(self, manifests: Manifests, *, progress: LoadingProgress) -> None:
        """Write what is new or changed, and lower versions as history; not what is suspended, see `suspend`.

        Raises:
            Unavailable: the database does not answer.
        """
        # What is served goes first: a version that it replaces is current until then and could not become history.
        entries = [(entry, False) for entry in manifests.served if not entry.workflow.spec.suspend]
        entries += [(entry, True) for entry in manifests.history]
        for number, (entry, superseded) in enumerate(entries, start=1):
            await self._write(entry, superseded=superseded)
            progress("loading", number, len(entries))

    async def remove_missing(self, manifests: Manifests) -> None:
        """End serving what came from files and is in none of them any more.

        Raises:
            Unavailable: the database does not answer.
        """
        described = {(entry.namespace, entry.name) for entry in manifests.served}
        for (namespace, name), current in self.stored.items():
            gone = (namespace, name) not in described and current.source.startswith(_FROM_FILE)
            if gone and not self._is_kept(current):
                await self.catalog.remove(namespace=namespace, name=name)
                self.report.removed.append(f"{namespace}/{name}")

    async def _write(self, entry: CatalogEntry, *, superseded: bool = False) -> None:
        try:
            await self._apply(replace(entry, source=_FROM_FILE + entry.source), superseded=superseded)
        except InvalidManifest as error:
            message = str(error).removeprefix(_FROM_FILE)
            self.report.rejections.append(Rejection(source=entry.source, field=error.field, message=message))

    async def _apply(self, entry: CatalogEntry, *, superseded: bool) -> None:
        current = self.stored.get((entry.namespace, entry.name))
        if current is not None and not superseded:
            if _is_current(entry, current=current, model_id=self.model_id):
                self.report.unchanged += 1
                return
            superseded = self._is_kept(current) and precedence(current.version) > precedence(entry.version)
        outcome = await self.catalog.apply(entry, model_id=self.model_id, superseded=superseded)
        named = f"{entry.namespace}/{entry.name}@{entry.version}"
        if outcome is ApplyOutcome.CREATED:
            self.report.created.append(named)
        elif outcome is ApplyOutcome.UPDATED:
            self.report.updated.append(named)
        elif not superseded:
            self.report.unchanged += 1

    def _is_kept(self, current: StoredWorkflow) -> bool:
        return file_of(current.source.removeprefix(_FROM_FILE)) in self.broken_files


def _is_current(entry: CatalogEntry, *, current: StoredWorkflow, model_id: str) -> bool:
    """Whether applying the entry would change nothing."""
    if (current.version_id, current.source, current.index_hash) != (entry.version_id, entry.source, entry.index_hash):
        return False
    if entry.workflow.spec.suspend:
        return current.status == "Disabled"
    return current.status == "Active" and model_id in ("", current.model_id)
