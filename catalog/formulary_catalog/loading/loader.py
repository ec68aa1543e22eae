"""Keeps the catalog in step with manifest files; unchanged files cost next to nothing.

`formulary up`, `stdio` and `--watch` call it. In a cluster the operator does the same from objects.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from formulary_catalog.domain.targets.reference import known_kind
from formulary_catalog.embedding import Embedder
from formulary_catalog.loading.alerts.sources import IncidentSourceSync
from formulary_catalog.loading.contracts import ContractSync
from formulary_catalog.loading.documents import ManifestDocument, file_of, read_documents
from formulary_catalog.loading.files import find_manifests
from formulary_catalog.loading.incidents import ContextSync
from formulary_catalog.loading.manifests import Manifests, sort_out
from formulary_catalog.loading.report import LoadingProgress, LoadReport, silent
from formulary_catalog.loading.targets.manifests import ManifestTargets
from formulary_catalog.loading.vectors import store_missing_vectors
from formulary_catalog.loading.workflows import WorkflowSync
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter


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

    async def _sync(self, *, broken_files: frozenset[str], model_id: str, report: LoadReport) -> WorkflowSync:
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
