"""The disk of the database fills up while the server runs: clear errors, nothing lost, and it recovers by itself."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import Unavailable
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import DEADLINE
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.services import open_parts, service_on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")

CALLER = Caller(name="test", access=EVERYTHING)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of its own with room for a database and little more."""
    directory = Path(tempfile.mkdtemp(prefix="formulary-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m,mode=711", "tmpfs", str(directory)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"mounts are not permitted here: {mounted.stderr}")
    yield directory
    subprocess.run(["umount", directory], check=True)
    directory.rmdir()


async def _audited(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("select count(*) from formulary.trace_event"))
    finally:
        await connection.close()


async def _answered_until_full(service: CatalogService) -> int:
    """How many searches were answered before one was refused. Their audit rows fill what is left of the disk."""
    for number in range(5000):
        request = search_request(query=f"{number} " + os.urandom(1900).hex())
        try:
            await service.search(request, caller=CALLER)
        except Unavailable as refusal:
            if "the disk of the database is full" not in str(refusal):
                raise
            return number
    raise AssertionError("the disk did not fill up")


async def test_a_full_disk_refuses_answers_and_frees_itself_without_a_restart(
    small_disk: Path, embedder: Embedder
) -> None:
    with EmbeddedPostgres(data_dir=small_disk / "data") as postgres:
        await asyncio.to_thread(migrate, postgres.dsn())
        async with open_parts(postgres.dsn(), deadline=DEADLINE) as parts:
            service = service_on(parts)
            ballast = small_disk / "ballast"
            free = os.statvfs(small_disk)
            ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - 512 * 1024))

            answered = await _answered_until_full(service)
            ballast.unlink()

            assert await _audited(postgres.dsn()) == answered
            await service.search(search_request(query="OOMKilled critical"), caller=CALLER)
            assert await _audited(postgres.dsn()) == answered + 1
