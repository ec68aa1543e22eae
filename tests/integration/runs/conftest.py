"""A catalog of workflows that can be run, and who asks for runs: callers of the service, or a test of its rows."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.service import InvocationService
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import InvocationStore
from support.runnable import nobody_runs_anything, runnable_database
from support.runs import KEY, KEYS
from support.services import open_parts, service_on


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with runnable_database(postgres, tmp_path_factory.mktemp("manifests")) as database:
        yield database


@pytest.fixture(scope="module")
async def parts(dsn: str) -> AsyncIterator[CatalogParts]:
    async with open_parts(dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
def catalog(parts: CatalogParts) -> CatalogService:
    return service_on(parts)


@pytest.fixture(scope="module")
def service(parts: CatalogParts, tmp_path_factory: pytest.TempPathFactory) -> InvocationService:
    keys = tmp_path_factory.mktemp("keys") / "input.key"
    keys.write_text(KEY)
    return Services.on(parts, settings=Settings(input_key_file=keys)).invocations


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """The database as its owner, with nobody who could run anything."""
    async with nobody_runs_anything(dsn) as connection:
        yield connection


@pytest.fixture
async def serving_side(database: str) -> AsyncIterator[Database]:
    """The database as the server's role."""
    opened = await Database.open(database, role=Role.SERVER, deadline=30)
    yield opened
    await opened.close()


@pytest.fixture
def asked(serving_side: Database) -> InvocationStore:
    """Where callers ask for runs."""
    return InvocationStore(serving_side, shared_namespace="formulary", keys=KEYS)


@pytest.fixture
def runs(writing: Database) -> RunWriter:
    """What the operator does."""
    return RunWriter(writing, shared_namespace="formulary", keys=KEYS)
