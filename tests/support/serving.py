"""A real server on a free port of loopback, over a real database that holds manifests."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from formulary_catalog.domain.access import Authenticator
from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.edges.app import create_app
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.edges.http.middleware import PROBES
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.listening.server import Server
from formulary_catalog.loading.loader import Loader
from formulary_catalog.loading.targets import ManifestTargets
from formulary_catalog.metrics import Metrics
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.connection_limits import connection_limits
from support.databases import migrated_database
from support.services import open_parts


@asynccontextmanager
async def catalog(
    roots: Iterable[Path],
    *,
    postgres: EmbeddedPostgres,
    embedder: Embedder | None,
    policy: ContextPolicy = ContextPolicy.OPTIONAL,
    metrics: Metrics | None = None,
    **settings: Any,
) -> AsyncIterator[CatalogParts]:
    """The parts on a new database that holds the manifests below `roots`."""
    async with migrated_database(postgres) as dsn:
        targets = ManifestTargets(default_namespace="formulary")
        await load(roots, dsn=dsn, embedder=embedder, targets=targets)
        async with open_parts(
            dsn, embedder=embedder, policy=policy, metrics=metrics, targets=targets, **settings
        ) as parts:
            yield parts


@asynccontextmanager
async def serving(
    parts: CatalogParts,
    *,
    authenticator: Authenticator | None = None,
    tls: ssl.SSLContext | None = None,
    **settings: Any,
) -> AsyncIterator[str]:
    """The URL of a server of the whole application."""
    app = create_app(parts, settings=Settings(**settings), readiness=Readiness(), authenticator=authenticator)
    async with listening(app, tls=tls) as url:
        yield url


async def load(
    roots: Iterable[Path],
    *,
    dsn: str,
    embedder: Embedder | None,
    targets: ManifestTargets | None = None,
    keys: InputKeys | None = None,
    refused: str = "",
) -> None:
    """Load the manifests below `roots` into a migrated database; `refused` is in what is said of one that is not."""
    writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
    try:
        loader = Loader(
            list(roots),
            catalog=CatalogWriter(writing),
            contexts=ContextWriter(writing),
            contracts=ContractWriter(writing, shared_namespace="formulary"),
            default_namespace="formulary",
            targets=targets,
            sources=IncidentSourceWriter(writing, origin="file", keys=keys or InputKeys()),
            owns_contexts=True,
        )
        report = await loader.load(embedder=embedder)
        said = [each.message for each in report.rejections]
        assert len(said) == bool(refused), said
        assert all(refused in each for each in said), said
    finally:
        await writing.close()


@asynccontextmanager
async def listening(app: ASGIApp, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server of any application."""
    server = _Server(app, tls=tls)
    running = asyncio.create_task(server.serve_at(host="127.0.0.1", port=0))
    port = await asyncio.wait_for(server.port, timeout=10)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await running


class _Server(Server):
    def __init__(self, app: ASGIApp, *, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            app,
            limits=connection_limits(probes=PROBES),
            keep_alive_seconds=5,
            grace_seconds=5,
            lifespan=True,
            tls=tls,
        )
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def listens(self, port: int) -> None:
        self.port.set_result(port)
