"""The starter catalog tests itself: searches find what catalog/workflows/tests says."""

from pathlib import Path

import pytest

from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.loading.expectations import expectations_in, failures
from formulary_catalog.operations.services import Services
from formulary_catalog.settings import Settings
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import fill, starter_documents

pytestmark = pytest.mark.smoke


async def test_searches_of_the_starter_catalog_find_what_its_own_tests_say(
    parts: CatalogParts, workflows: CatalogWriter, embedder: Embedder, starter_catalog: Path
) -> None:
    entries = await fill(workflows, starter_documents(starter_catalog), embedder=embedder)
    searches = Services.on(parts, settings=Settings()).catalog
    expected = expectations_in([starter_catalog], workflows={each.name for each in entries})
    assert len(expected) > 10
    failed = {
        each.expectation.name: found
        for each in expected
        if (found := [*failures(each.expectation, await searches.search(each.expectation.request, caller=LOCAL))])
    }
    assert failed == {}
