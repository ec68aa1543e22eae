"""A database for each size of catalog, made on first use and kept where the benchmark is given a directory."""

import asyncio
from pathlib import Path

import asyncpg

from catalog_loading import copy_catalog
from catalogs import Catalog
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.database.migrate import HEAD, migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from text_vectors import cached_vectors

_SHARED_BUFFERS = "2GB"
_COMPLETE = "complete"


def bench_postgres(directory: Path) -> EmbeddedPostgres:
    """PostgreSQL as it should be set up for large catalogs: the covering index fits into its memory."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o711)  # the account that PostgreSQL has under root must reach its data
    return EmbeddedPostgres(data_dir=directory / "postgres", shared_buffers=_SHARED_BUFFERS)


async def catalog_database(postgres: EmbeddedPostgres, *, catalog: Catalog, embedder: Embedder) -> str:
    """The DSN, as its owner, of a database that holds the catalog under the schema of today."""
    name = f"bench_{catalog.size}_{catalog.seed}_{HEAD}"
    dsn = postgres.dsn(database=name)
    admin = await asyncpg.connect(postgres.dsn(database="postgres"))
    try:
        described = "select shobj_description(oid, 'pg_database') from pg_database where datname = $1"
        if await admin.fetchval(described, name) == _COMPLETE:
            return dsn
        await admin.execute(f"drop database if exists {name} with (force)")
        await admin.execute(f"create database {name}")
        await asyncio.to_thread(migrate, dsn)
        text_vectors = cached_vectors(embedder, catalog.embedded_texts())
        await copy_catalog(catalog, text_vectors=text_vectors, dsn=dsn, model_id=embedder.model_id)
        await admin.execute(f"comment on database {name} is '{_COMPLETE}'")
    finally:
        await admin.close()
    return dsn
