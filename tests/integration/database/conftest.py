"""Manifests of a test's own, and the catalog that they are loaded into."""

from pathlib import Path

import pytest

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.loading import Manifests


@pytest.fixture
def manifests(
    tmp_path: Path, workflows: CatalogWriter, contexts: ContextWriter, contracts: ContractWriter
) -> Manifests:
    directory = tmp_path / "manifests"
    directory.mkdir()
    return Manifests(directory, catalog=workflows, contexts=contexts, contracts=contracts)


@pytest.fixture
def contracts(writing: Database) -> ContractWriter:
    """Where the rules of contracts are kept."""
    return ContractWriter(writing, shared_namespace="formulary")
