"""Loading from files for tests, and what a load reports."""

from pathlib import Path
from typing import Any

from formulary_catalog.embedding import Embedder
from formulary_catalog.loading.loader import Loader
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.manifest import text


class Manifests:
    """A directory of manifests and a loader of it."""

    def __init__(
        self, directory: Path, *, catalog: CatalogWriter, contexts: ContextWriter, contracts: ContractWriter
    ) -> None:
        self.directory = directory
        self.contracts = contracts
        self.catalog = catalog
        self.contexts = contexts
        self.loader = self.new_loader()

    def new_loader(self, *, owns_contexts: bool = True) -> Loader:
        return Loader(
            [self.directory],
            catalog=self.catalog,
            contexts=self.contexts,
            contracts=self.contracts,
            default_namespace="formulary",
            owns_contexts=owns_contexts,
        )

    def write(self, name: str, *documents: dict[str, Any]) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(*documents))
        return path

    async def load(self, embedder: Embedder | None = None) -> LoadReport:
        return await self.loader.load(embedder=embedder)

    async def served(self) -> dict[str, str]:
        return {stored.name: stored.version for stored in await self.catalog.served()}


def messages(report: LoadReport) -> list[str]:
    return [rejection.message for rejection in report.rejections]
