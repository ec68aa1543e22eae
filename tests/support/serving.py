"""A real server on a free port of loopback, over a real database that holds manifests."""

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import uvicorn
from starlette.types import ASGIApp

from formulary_catalog.domain.access import Authenticator
from formulary_catalog.embedding import Embedder
from formulary_catalog.loading.loader import Loader
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.app import create_app
from formulary_catalog.server.readiness import Readiness
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.catalog import CatalogWriter
from formulary_catalog.store.contexts import ContextWriter
from formulary_catalog.store.database import Database, Role
from formulary_catalog.store.embedded import EmbeddedPostgres
from formulary_catalog.store.migrate import migrate
from support.services import open_service


@asynccontextmanager
async def catalog(
    roots: Iterable[Path],
    *,
    postgres: EmbeddedPostgres,
    embedder: Embedder | None,
    policy: ContextPolicy = ContextPolicy.OPTIONAL,
    metrics: Metrics | None = None,
    **settings: Any,
) -> AsyncIterator[CatalogService]:
    """The read side of a new database that holds the manifests below `roots`."""
    async with _database(postgres) as dsn:
        await load(roots, dsn=dsn, embedder=embedder)
        service = await open_service(dsn, embedder=embedder, policy=policy, metrics=metrics, **settings)
        try:
            yield service
        finally:
            await service.close()


@asynccontextmanager
async def serving(
    service: CatalogService,
    *,
    authenticator: Authenticator | None = None,
    metrics: Metrics | None = None,
    **settings: Any,
) -> AsyncIterator[str]:
    """The URL of a server of the whole application."""
    app = create_app(
        service=service,
        settings=Settings(**settings),
        readiness=Readiness(),
        metrics=metrics or Metrics(),
        authenticator=authenticator,
    )
    async with listening(app) as url:
        yield url


@asynccontextmanager
async def _database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    name = f"serving_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(postgres.dsn(database="postgres"))
    try:
        await admin.execute(f"create database {name}")
        dsn = postgres.dsn(database=name)
        await asyncio.to_thread(migrate, dsn)
        yield dsn
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


async def load(roots: Iterable[Path], *, dsn: str, embedder: Embedder | None) -> None:
    """Load the manifests below `roots` into a migrated database."""
    writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
    try:
        loader = Loader(
            list(roots),
            catalog=CatalogWriter(writing),
            contexts=ContextWriter(writing),
            default_namespace="formulary",
            owns_contexts=True,
        )
        report = await loader.load(embedder=embedder)
        assert report.rejections == []
    finally:
        await writing.close()


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """The URL of a server of any application."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http="httptools", lifespan="on", log_config=None, timeout_graceful_shutdown=5)
        server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        await asyncio.wait_for(server.listens.wait(), timeout=10)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()
