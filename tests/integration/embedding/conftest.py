"""Models and vectors of a catalog on a real database."""

import pytest

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
from formulary_catalog.store.workflows.reembedding import ReembeddingStore
from support.reembedding import A


@pytest.fixture
async def models(writing: Database) -> ModelStore:
    store = ModelStore(writing)
    await store.adopt(A)
    return store


@pytest.fixture
async def store(writing: Database) -> ReembeddingStore:
    return ReembeddingStore(writing)
