"""What goes wrong during a soak: each fault does its harm, then takes it back."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil

from formulary_catalog.store.embedded.server import EmbeddedPostgres

HARM_SECONDS = 5.0
_PATIENCE = 12
_KILLS = 20
_CHUNK = bytes(1024**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`harm` is over when what it broke works again, as far as it broke it; nothing is done to the server itself."""

    name: str
    harm: Callable[[], Awaitable[None]]


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path | None]:
    """A disk of its own for the audit trail; None where mounts are not permitted."""
    directory = Path(tempfile.mkdtemp(prefix="formulary-soak-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=711", "tmpfs", str(directory)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield directory if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", directory], check=True)
        directory.rmdir()


async def move_trail(dsn: str, *, disk: Path, owner: tuple[int, int]) -> None:
    """Keep the trail on that disk from now on; `owner` is the account of the database."""
    place = disk / "trail"
    place.mkdir(mode=0o700)
    os.chown(place, *owner)
    async with _connected(dsn) as connection:
        await connection.execute(f"create tablespace trail location '{place}'")
        partitions = await connection.fetch(
            "select relid::regclass::text from pg_partition_tree('formulary.trace_event') where isleaf"
        )
        for (partition,) in partitions:
            await connection.execute(f"alter table {partition} set tablespace trail")


class Faults:
    """All that can be done here to a database and to the embedder of a server."""

    def __init__(
        self,
        postgres: EmbeddedPostgres,
        *,
        dsn: str,
        embedder_fails_while: Path,
        disk: Path | None,
        failures: Callable[[], int],
    ) -> None:
        """`failures` counts the calls that failed so far."""
        self._postgres = postgres
        self._dsn = dsn
        self._embedder_fails_while = embedder_fails_while
        self._disk = disk
        self._failures = failures

    def all(self) -> list[Fault]:
        """In the order in which they are done."""
        faults = [
            Fault(name="database restarted", harm=self._restart),
            Fault(name="database crashed", harm=self._crash),
            Fault(name="connections killed", harm=self._kill_connections),
            Fault(name="queries slow", harm=self._lock_tables),
            Fault(name="embedder failing", harm=self._fail_embedder),
        ]
        if self._disk is not None:
            faults.append(Fault(name="disk full for the trail", harm=self._fill_disk))
        return faults

    async def _restart(self) -> None:
        await asyncio.to_thread(self._postgres.stop)
        await asyncio.sleep(HARM_SECONDS / 2)
        await asyncio.to_thread(self._postgres.start)

    async def _crash(self) -> None:
        """SIGKILL to the process that all of the database's others belong to: it recovers from its log."""
        async with _connected(self._dsn) as connection:
            server = psutil.Process(connection.get_server_pid()).parent()
        assert server is not None
        server.kill()
        await asyncio.sleep(HARM_SECONDS / 2)
        assert await asyncio.to_thread(self._postgres.restart_if_dead)

    async def _kill_connections(self) -> None:
        failures = self._failures()
        async with _connected(self._dsn) as connection:
            for kill in range(_KILLS * _PATIENCE):
                if kill >= _KILLS and self._failures() > failures:  # reads are repeated: few calls notice at all
                    break
                await connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'formulary_%'"
                )
                await asyncio.sleep(HARM_SECONDS / _KILLS)

    async def _lock_tables(self) -> None:
        """Nothing can be read from the catalog, as behind a long migration."""
        async with _connected(self._dsn) as connection, connection.transaction():
            await connection.execute("lock table formulary.workflow_search, formulary.workflow_version")
            await asyncio.sleep(HARM_SECONDS)

    async def _fail_embedder(self) -> None:
        self._embedder_fails_while.touch()
        await asyncio.sleep(HARM_SECONDS)
        self._embedder_fails_while.unlink()

    async def _fill_disk(self) -> None:
        assert self._disk is not None
        ballast, failures = self._disk / "ballast", self._failures()
        await asyncio.to_thread(_fill, ballast)
        await asyncio.sleep(HARM_SECONDS)
        for _ in range(_PATIENCE):  # what the database took from the disk before is filled first
            if self._failures() > failures:
                break
            await asyncio.sleep(HARM_SECONDS)
        ballast.unlink()


def _fill(file: Path) -> None:
    """Write until there is no space left, while the database takes of it too; the last write takes what there is."""
    with file.open("wb", buffering=0) as opened, suppress(OSError):
        while True:
            opened.write(_CHUNK)


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()
