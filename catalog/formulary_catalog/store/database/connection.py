"""A pool of connections that act as one database role, with errors translated and a deadline on everything.

Processes open one for each role; the modules of `store` read and write through it. Callers see only errors of our tree,
since texts of the driver may hold values. Reads are repeated once where a connection was lost, writes never.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from pgvector.asyncpg import register_vector

from formulary_catalog.errors import FormularyError, TooLarge, Unavailable
from formulary_catalog.store.database.migrate import CONNECT_FAILURES, connection_failure

if TYPE_CHECKING:
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    _PlainConnection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.pool.PoolConnectionProxy
    _PlainConnection = asyncpg.Connection

_T = TypeVar("_T")
_CONNECTION_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that is lost while it is being set up
    asyncpg.OperatorInterventionError,
    ConnectionError,
)
DEADLINE = 1.8
"""Seconds: the server stays below the 2 s in which a caller expects an error."""
_OPEN_TIMEOUT = 10.0
_GOODBYE_SECONDS = 1.0
_FRESH_SECONDS = 1.0
DATABASE_ID = """
select left(encode(sha256(convert_to(system_identifier::text || '/' || current_database(), 'UTF8')), 'hex'), 12)
from pg_control_system()
"""
"""A cluster of PostgreSQL keeps its number through restarts, upgrades of the schema and replication."""
# A machine that vanished leaves its connection behind; the server shall find out within a minute or so.
_NOTICE_LOSS = {"tcp_keepalives_idle": "30", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}


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
        self._answered_at = float("-inf")

    @classmethod
    async def open(cls, dsn: str, *, role: Role, size: int = 10, deadline: float = DEADLINE) -> "Database":
        """Connect. `deadline` is in seconds.

        Raises:
            StartupError, Unavailable: no connection could be made.
        """
        database = await cls.unconnected(dsn, role=role, size=size, deadline=deadline)
        await database.connect()
        return database

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, dsn: str, *, role: Role, size: int = 10, deadline: float = DEADLINE
    ) -> AsyncIterator["Database"]:
        """`open`, and `close` at the end of the block."""
        database = await cls.open(dsn, role=role, size=size, deadline=deadline)
        try:
            yield database
        finally:
            await database.close()

    @asynccontextmanager
    async def apart(self, *, role: Role, deadline: float) -> AsyncIterator["Database"]:
        """The same database on one connection of its own: for what must not wait for a busy pool, or may take longer.

        Raises:
            StartupError, Unavailable: no connection could be made.
        """
        async with Database.opened(self._dsn, role=role, size=1, deadline=deadline) as database:
            yield database

    @classmethod
    async def unconnected(cls, dsn: str, *, role: Role, size: int = 10, deadline: float = DEADLINE) -> "Database":
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
            connection_class=_Leaving,
            server_settings={
                "role": role.value,
                "search_path": "formulary, public",
                "application_name": role.value,
                "jit": "off",
                "random_page_cost": "1.1",
                "max_parallel_workers_per_gather": "0",
                # Holds for every statement of the server. To plan a search again each time takes longer than to run it,
                # and all plans of it are alike; any other must be fast by a plan that does not look at its values.
                "plan_cache_mode": "force_generic_plan" if role is Role.SERVER else "auto",
                "statement_timeout": f"{int(deadline * 1000)}ms",
                # What a search of 100,000 workflows holds at once does not fit into the usual 4 MB.
                **({"work_mem": "16MB"} if role is Role.SERVER else {}),
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

        One that answered a call a moment ago is not asked: a new connection costs most where there is least time.

        Raises:
            Unavailable: it does not answer.
        """
        async with translated(), asyncio.timeout(self._deadline):
            if self._pool.is_closing():
                raise Unavailable("the connection to the database is closed; the server is stopping")
            if time.monotonic() - self._answered_at < _FRESH_SECONDS:
                return
            connection = await asyncpg.connect(self._dsn)
            try:
                await connection.execute("select 1")
            finally:
                connection.terminate()

    async def id(self) -> str:
        """What two processes that use one database have in common, and no others; it says nothing about the database.

        Raises:
            Unavailable: it does not answer.
        """
        return str((await self.fetch(DATABASE_ID))[0][0])

    async def read(self, operation: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Run a read, all of it on one snapshot; once more on a fresh connection if the first one was lost."""
        async with translated(), asyncio.timeout(self._deadline):
            try:
                return await self._run(operation, snapshot=True)
            except _CONNECTION_LOST:
                await self._pool.expire_connections()
                return await self._run(operation, snapshot=True)

    async def fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """The rows of one statement that only reads: in one round trip, and repeated like `read`."""
        return await self.read_apart(lambda connection: connection.fetch(statement, *arguments))

    async def read_apart(self, operation: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Run statements that only read, each on a snapshot of its own, without the round trips of a transaction.

        Repeated like `read`.
        """

        async with translated(), asyncio.timeout(self._deadline):
            lost = False
            while True:
                try:
                    async with self._connection() as connection:
                        result = await operation(connection)
                        self._answered_at = time.monotonic()
                        return result
                except _CONNECTION_LOST:
                    if lost:
                        raise
                    lost = True
                    await self._pool.expire_connections()

    @asynccontextmanager
    async def exclusively(self, lock: int) -> AsyncIterator[bool]:
        """Hold a lock of the database meanwhile, on a connection of its own; False if another process holds it.

        It ends with the connection, and so with the process, however that ends.

        Raises:
            Unavailable: the database does not answer.
        """
        async with translated():
            connection = await asyncpg.connect(
                self._dsn, timeout=_OPEN_TIMEOUT, command_timeout=self._deadline, server_settings=_NOTICE_LOSS
            )
        try:
            async with translated():
                locked = await connection.fetchval("select pg_try_advisory_lock($1)", lock)
            yield bool(locked)
        finally:
            with suppress(TimeoutError, *_CONNECTION_LOST):  # the lock is free when the server has said goodbye
                await connection.close(timeout=_GOODBYE_SECONDS)

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

    async def _run(self, operation: Callable[[Connection], Awaitable[_T]], *, snapshot: bool = False) -> _T:
        async with self._connection() as connection:
            transaction = connection.transaction(
                isolation="repeatable_read" if snapshot else "read_committed", readonly=snapshot
            )
            await transaction.start()
            try:
                result = await operation(connection)
            except (TimeoutError, asyncio.CancelledError):
                raise  # the connection is given up, and the transaction with it
            except Exception:
                await transaction.rollback()
                raise
            await transaction.commit()
            self._answered_at = time.monotonic()
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


class _Leaving(_PlainConnection):
    """A connection whose end cannot fail: the pool closes lost ones in a task whose error nobody would take."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109  # the driver's signature
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await super().close(timeout=timeout)


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
    except asyncpg.ProgramLimitExceededError as error:
        place = f" for table {error.table_name}" if error.table_name else ""
        raise TooLarge(f"a value{place} is larger than the database takes; shorten it") from error
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
