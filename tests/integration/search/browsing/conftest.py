"""A catalog of related workflows and its read side, without a model."""

from collections.abc import AsyncIterator

import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browsing import DOCUMENTS
from support.filling import fill
from support.services import open_parts


@pytest.fixture
async def parts(database: str, workflows: CatalogWriter) -> AsyncIterator[CatalogParts]:
    await fill(workflows, DOCUMENTS)
    async with open_parts(database) as opened:
        yield opened
