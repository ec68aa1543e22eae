"""The real parts that tests share: one PostgreSQL, one embedder, fresh databases."""

import asyncio
import functools
import gc
import os
import shutil
import signal
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpcore2
import pytest
from hypothesis import Phase, settings

from formulary_catalog.domain.search import spelling, synonyms, terms
from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import databases
from support.distribution import GroupScheduling
from support.examples import note_first_tier
from support.services import PATIENT, open_parts, service_on

pytest_plugins = ["support.cluster_fixtures"]
os.environ["HF_HUB_OFFLINE"] = "1"
# Nine thousand tests are no garbage: looking through them again and again took a quarter of the time to collect them.
gc.disable()
# Tests start some hundred processes: each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
_ROOT = Path(__file__).parents[1]
_MEMORY = Path("/dev/shm")
_ENOUGH_MEMORY = 8 * 2**30
if (
    os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free > _ENOUGH_MEMORY
    and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
):
    # Some fifty databases and API servers write all the time: a slow disk would make it a test of the disk.
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
# That an example takes long says something of the machine, not of the code.
settings.register_profile("formulary", deadline=None)
settings.register_profile("mutants", deadline=None, phases=[Phase.explicit, Phase.generate])  # no time for shrinking
settings.load_profile("formulary")


_read_authorities = httpcore2.default_ssl_context


@functools.cache
def _authorities(cert_file: str | None, cert_dir: str | None, trust_env: bool) -> ssl.SSLContext:
    return _read_authorities(_trust_env=trust_env)


def _authorities_once(*, _trust_env: bool = True) -> ssl.SSLContext:
    """Each client reads 140 of them otherwise, which took a twentieth of all tests."""
    return _authorities(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), _trust_env)


httpcore2.default_ssl_context = _authorities_once


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `scripts/test.py` knows of earlier runs."""
    parser.addoption("--passed", type=Path, help="a file with the modules whose tests are marked `passed`, one a line")


def pytest_configure(config: pytest.Config) -> None:
    """What runs in the background is ended by a signal, and has to stop what it has started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "not long" in config.option.markexpr:
        note_first_tier()
    for remembering in (spelling, synonyms, terms):  # mutants are forked from a process that has filled their caches
        for each in vars(remembering).values():
            if hasattr(each, "cache_clear"):
                each.cache_clear()


def pytest_collection_finish() -> None:
    """From now on there is garbage again; what is there already stays."""
    gc.freeze()
    gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Keep together, in one of the processes that share a run, what shares a server."""
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of which the first tier runs only those marked `smoke`."""
    listed: Path | None = config.getoption("--passed")
    passed = {_ROOT / module for module in listed.read_text().splitlines()} if listed is not None else set()
    for item in items:
        if item.path in passed:
            item.add_marker("passed")


@pytest.fixture(scope="session")
def data_dirs() -> Iterator[Path]:
    """A directory for data of PostgreSQL; pytest's own are closed to the account that it has under root."""
    with tempfile.TemporaryDirectory(prefix="formulary-tests-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


@pytest.fixture(scope="session")
def postgres(data_dirs: Path) -> Iterator[EmbeddedPostgres]:
    """One real PostgreSQL with pgvector for the whole session."""
    with EmbeddedPostgres(data_dir=data_dirs / "shared") as server:
        yield server


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    """The real model, from the user's cache of exports."""
    return load_embedder()


@pytest.fixture
async def empty_database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of a database that holds nothing."""
    async with databases.empty_database(postgres) as dsn:
        yield dsn


@pytest.fixture
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of a migrated database, as its owner."""
    async with databases.migrated_database(postgres) as dsn:
        yield dsn


@pytest.fixture
async def plain_owner(database: str, empty_database: str) -> AsyncIterator[str]:
    """The DSN of a migrated database whose owner is no superuser; the other one has seen to it that there are roles."""
    admin = await asyncpg.connect(empty_database)
    name = await admin.fetchval("select current_database()")
    role = f"owner_{name}"
    await admin.execute(f"create role {role} login; grant formulary_server, formulary_writer to {role}")
    await admin.execute(f"alter database {name} owner to {role}")
    dsn = empty_database.replace("postgres@", f"{role}@")
    await asyncio.to_thread(migrate, dsn)
    yield dsn
    await admin.execute(f"alter database {name} owner to postgres; reassign owned by {role} to postgres")
    await admin.execute(f"drop owned by {role}; drop role {role}")
    await admin.close()


@pytest.fixture
async def writing(database: str) -> AsyncIterator[Database]:
    """The database as the role that feeds the catalog."""
    opened = await Database.open(database, role=Role.WRITER, deadline=PATIENT)
    yield opened
    await opened.close()


@pytest.fixture
def workflows(writing: Database) -> CatalogWriter:
    """Writes workflows."""
    return CatalogWriter(writing)


@pytest.fixture
def contexts(writing: Database) -> ContextWriter:
    """Writes incident contexts."""
    return ContextWriter(writing)


@pytest.fixture
async def parts(database: str, embedder: Embedder) -> AsyncIterator[CatalogParts]:
    """What the services on the real database with the real model share."""
    async with open_parts(database, embedder=embedder) as opened:
        yield opened


@pytest.fixture
def service(parts: CatalogParts) -> CatalogService:
    """Searches, details and selections on them."""
    return service_on(parts)


@pytest.fixture(scope="session")
def starter_catalog() -> Path:
    """The manifests that ship with the product."""
    return Path(__file__).parents[1] / "catalog" / "workflows"
