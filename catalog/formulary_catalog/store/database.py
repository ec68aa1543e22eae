"""A pool of connections that act as one database role, with errors translated and a deadline on everything."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from pgvector.asyncpg import register_vector

from formulary_catalog.errors import FormularyError, Unavailable
from formulary_catalog.store.migrate import CONNECT_FAILURES, connection_failure

if TYPE_CHECKING:
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    Connection = asyncpg.pool.PoolConnectionProxy

_T = TypeVar("_T")
_CONNECTION_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that is lost while it is being made ready
    asyncpg.OperatorInterventionError,
    ConnectionError,
)
_OPEN_TIMEOUT = 10.0


class Role(StrEnum):
    """The roles that migrations create. Neither owns anything."""

    SERVER = "formulary_server"
    WRITER = "formulary_writer"


class Database:
    """PostgreSQL as one role. Every operation ends within `deadline` seconds, in a result or a `FormularyError`."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", *, dsn: str, deadline: float) -> None:
        self._pool = pool
        self._dsn = dsn
        self._deadline = deadline
        self._before_writes: Callable[[Connection], Awaitable[None]] | None = None

    @classmethod
    async def open(cls, dsn: str, *, role: Role, size: int = 10, deadline: float = 1.8) -> "Database":
        """Connect. `deadline` is in seconds; the server stays below the 2 s in which a caller expects an error.

        Raises:
            StartupError, Unavailable: no connection could be made.
        """
        database = await cls.unconnected(dsn, role=role, size=size, deadline=deadline)
        await database.connect()
        return database

    @classmethod
    async def unconnected(cls, dsn: str, *, role: Role, size: int = 10, deadline: float = 1.8) -> "Database":
        """A database that need not be there yet: operations raise `Unavailable` until it is."""
        pool = await asyncpg.create_pool(
            dsn,
            min_size=0,  # a floor would be restored in the background, with a traceback in the log for each outage
            max_size=size,
            max_inactive_connection_lifetime=0,
            init=_prepare_connection,
            reset=_nothing_to_reset,
            timeout=_OPEN_TIMEOUT,
            command_timeout=deadline,
            server_settings={
                "role": role.value,
                "search_path": "formulary, public",
                "application_name": role.value,
                "jit": "off",
                "max_parallel_workers_per_gather": "0",
                "statement_timeout": f"{int(deadline * 1000)}ms",
            },
        )
        return cls(pool, dsn=dsn, deadline=deadline)

    async def connect(self) -> None:
        """Make a first connection, to find out early why there can be none.

        Raises:
            StartupError, Unavailable: no connection could be made.
        """
        try:
            async with self._pool.acquire():
                return
        except CONNECT_FAILURES as error:
            raise connection_failure(error, dsn=self._dsn) from error

    async def close(self) -> None:
        """Let running operations finish, then disconnect."""
        try:
            await asyncio.wait_for(self._pool.close(), timeout=self._deadline)
        except TimeoutError:
            self._pool.terminate()

    async def ping(self) -> None:
        """Ask the database on a connection of its own, so that a busy pool does not look like an outage.

        Raises:
            Unavailable: it does not answer.
        """
        async with translated(), asyncio.timeout(self._deadline):
            if self._pool.is_closing():
                raise Unavailable("the connection to the database is closed; the server is stopping")
            connection = await asyncpg.connect(self._dsn)
            try:
                await connection.execute("select 1")
            finally:
                connection.terminate()

    async def read(self, operation: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Run a read in a transaction of its own; once more on a fresh connection if the first one was lost."""
        async with translated(), asyncio.timeout(self._deadline):
            try:
                return await self._run(operation)
            except _CONNECTION_LOST:
                await self._pool.expire_connections()
                return await self._run(operation)

    def before_writes(self, check: Callable[[Connection], Awaitable[None]]) -> None:
        """Have every later write run `check` first, in the same transaction; what it raises ends the write."""
        self._before_writes = check

    async def write(self, operation: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Run a write in a transaction of its own. Never repeated: whether a lost write happened is unknown."""
        check = self._before_writes

        async def checked(connection: Connection) -> _T:
            if check is not None:
                await check(connection)
            return await operation(connection)

        async with translated(), asyncio.timeout(self._deadline):
            return await self._run(checked)

    async def execute(self, statement: str, *arguments: object) -> None:
        """Run one statement that commits by itself."""
        if self._before_writes is not None:
            await self.write(lambda connection: connection.execute(statement, *arguments))
            return
        async with translated(), asyncio.timeout(self._deadline), self._connection() as connection:
            await connection.execute(statement, *arguments)

    async def _run(self, operation: Callable[[Connection], Awaitable[_T]]) -> _T:
        async with self._connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                result = await operation(connection)
            except (TimeoutError, asyncio.CancelledError):
                raise  # the connection is given up, and the transaction with it
            except Exception:
                await transaction.rollback()
                raise
            await transaction.commit()
            return result

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """A connection; one that did not answer in time is given up, since tidying it up would wait for it again."""
        async with self._pool.acquire() as connection:
            try:
                yield connection
            except (TimeoutError, asyncio.CancelledError):
                connection.terminate()
                raise


async def _nothing_to_reset(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """What is set here holds for a transaction, and an open one is rolled back anyway: a round trip less each time."""


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn what the driver raises into our errors; their texts may hold values, so they are never shown."""
    try:
        yield
    except FormularyError:
        raise
    except asyncpg.DiskFullError as error:
        raise Unavailable("the disk of the database is full; free space on its volume, then retry") from error
    except (
        asyncpg.UndefinedTableError,
        asyncpg.UndefinedColumnError,
        asyncpg.UndefinedFunctionError,
        asyncpg.InsufficientPrivilegeError,
    ) as error:
        raise Unavailable("the database schema is not the one this version needs; run `formulary migrate`") from error
    except (TimeoutError, OSError, asyncpg.QueryCanceledError, *_CONNECTION_LOST, asyncpg.PostgresError) as error:
        raise Unavailable("the database does not answer; retry in a few seconds") from error


async def _prepare_connection(connection: "asyncpg.Connection[Any]") -> None:
    await register_vector(connection)
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
