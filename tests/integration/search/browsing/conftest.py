"""A catalog of related workflows and its read side, without a model."""

from collections.abc import AsyncIterator

import pytest

from formulary_catalog.search.service import CatalogService
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browsing import DOCUMENTS
from support.filling import fill
from support.services import open_service


@pytest.fixture
async def service(database: str, workflows: CatalogWriter) -> AsyncIterator[CatalogService]:
    await fill(workflows, DOCUMENTS)
    opened = await open_service(database)
    yield opened
    await opened.close()
