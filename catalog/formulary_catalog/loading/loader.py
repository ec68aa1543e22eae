"""Keeps the catalog in step with manifest files; unchanged files cost next to nothing.

`formulary up`, `stdio` and `--watch` call it. In a cluster the operator does the same from objects: its
`workflows.reconciler` writes them with `store.workflows.writer`, too. A refused workflow never holds up the others.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.domain.targets.reference import known_kind
from formulary_catalog.domain.workflows.identity import precedence
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import InvalidManifest
from formulary_catalog.loading.contracts import ContractSync
from formulary_catalog.loading.documents import ManifestDocument, Rejection, file_of, read_documents
from formulary_catalog.loading.files import find_manifests
from formulary_catalog.loading.incidents import ContextSync, IncidentSourceSync
from formulary_catalog.loading.manifests import Manifests, sort_out
from formulary_catalog.loading.report import LoadingProgress, LoadReport, silent
from formulary_catalog.loading.targets import ManifestTargets
from formulary_catalog.loading.vectors import store_missing_vectors
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import ApplyOutcome, CatalogWriter

_FROM_FILE = "file:"  # begins the stored source of what came from a file; only that is removed with its file


class Loader:
    """Loads files, and directories of files, into one catalog.

    `owns_contexts` says that nobody else writes contexts, contracts and sources of alerts to this database: at the
    first load those that no file describes are removed then. Loads that are asked for at the same time run one after
    the other: what was read earlier must not be written over what was read later.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        catalog: CatalogWriter,
        contexts: ContextWriter,
        contracts: ContractWriter,
        default_namespace: str,
        targets: ManifestTargets | None = None,
        sources: IncidentSourceWriter | None = None,
        owns_contexts: bool,
    ) -> None:
        self.roots = tuple(roots)
        self._catalog = catalog
        self._contexts = ContextSync(contexts, owns_all=owns_contexts)
        self._contracts = ContractSync(contracts, owns_all=owns_contexts)
        self._sources = (
            IncidentSourceSync(sources, shared_namespace=default_namespace, owns_all=owns_contexts)
            if sources is not None
            else None
        )
        self._default_namespace = default_namespace
        self._targets = targets
        self._loading = asyncio.Lock()

    async def load(self, *, embedder: Embedder | None, progress: LoadingProgress = silent) -> LoadReport:
        """Read all files and make the catalog what they say.

        What cannot be accepted is reported and skipped; what its file gave us earlier stays served. Without an
        embedder workflows are found by their words alone, until a load with one. What ends the serving of a workflow,
        and what incidents are about, never waits for an embedder.

        Raises:
            StartupError: a directory is missing or unreadable; nothing was changed.
            Unavailable: the database does not answer; another load finishes the work.
        """
        async with self._loading:
            return await self._load(embedder=embedder, progress=progress)

    async def _load(self, *, embedder: Embedder | None, progress: LoadingProgress) -> LoadReport:
        manifests, complete = await asyncio.to_thread(self._read)
        report = LoadReport(
            ignored=sum(not self._counts_as_target(each) for each in manifests.ignored),
            rejections=manifests.rejections,
            notes=[note.message for note in manifests.notes],
        )
        if self._targets is not None:
            self._targets.replace(manifests.ignored)
        broken_files = frozenset(file_of(rejection.source) for rejection in manifests.rejections)
        model_id = embedder.model_id if embedder is not None else ""
        workflows = await self._sync(broken_files=broken_files, model_id=model_id, report=report)
        await workflows.suspend(manifests)
        if complete:
            await workflows.remove_missing(manifests)
        await self._contracts.run(manifests, complete=complete, broken_files=broken_files, report=report)
        await self._contexts.run(manifests, complete=complete, broken_files=broken_files, report=report)
        if self._sources is not None:
            await self._sources.run(manifests, complete=complete, broken_files=broken_files, report=report)
        if embedder is not None:
            await store_missing_vectors(
                manifests.served, catalog=self._catalog, embedder=embedder, report=report, progress=progress
            )
            workflows = await self._sync(broken_files=broken_files, model_id=model_id, report=report)
        await workflows.apply(manifests, progress=progress)
        return report

    async def _sync(self, *, broken_files: frozenset[str], model_id: str, report: LoadReport) -> "WorkflowSync":
        """A pass over the workflows as the catalog has them now."""
        stored = {(workflow.namespace, workflow.name): workflow for workflow in await self._catalog.served()}
        return WorkflowSync(
            catalog=self._catalog, stored=stored, broken_files=broken_files, model_id=model_id, report=report
        )

    def _counts_as_target(self, document: ManifestDocument) -> bool:
        return self._targets is not None and known_kind(str(document.content.get("kind", ""))) is not None

    def _read(self) -> tuple[Manifests, bool]:
        """What the files say, and whether all of them could be found."""
        found = find_manifests(self.roots)
        documents = [document for file in found.files for document in read_documents(file.path, name=file.name)]
        manifests = sort_out([*found.rejections, *documents], default_namespace=self._default_namespace)
        return manifests, not found.incomplete


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
