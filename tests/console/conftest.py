"""One browser for all tests of the console, and for each module a server with a past of its own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser

from formulary_catalog.embedding import Embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.browser import browsing
from support.console import Console, serve_console, write_past
from support.console_pages import Windows
from support.databases import copied_database, migrated_database
from support.runs import KEY


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser; each window of it begins without a past."""
    async with browsing() as launched:
        yield launched


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the key that sensitive input of runs is sealed with."""
    file = tmp_path_factory.mktemp("keys") / "input.key"
    file.write_text(KEY)
    return file


@pytest.fixture(scope="session")
async def past(postgres: EmbeddedPostgres, starter_catalog: Path, embedder: Embedder, keys: Path) -> AsyncIterator[str]:
    """The DSN of a database with the starter catalog and a past, of which modules get copies."""
    async with migrated_database(postgres) as dsn:
        await write_past(dsn, starter_catalog=starter_catalog, embedder=embedder, keys=keys)
        yield dsn


@pytest.fixture(scope="module")
async def console(postgres: EmbeddedPostgres, past: str, embedder: Embedder, keys: Path) -> AsyncIterator[Console]:
    """A server of the module's own."""
    async with (
        copied_database(postgres, past) as dsn,
        serve_console(dsn, embedder=embedder, keys=keys) as served,
    ):
        yield served


@pytest.fixture(scope="module")
async def windows(console: Console, browser: Browser) -> AsyncIterator[Windows]:
    """Windows of people who have signed in at it."""
    async with AsyncExitStack() as stack:
        yield Windows(console, browser, stack)
