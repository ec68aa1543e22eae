"""SQL of callers: one statement, on a connection of its own, as a role that can only read the views of `insight`.

`analytics/service` calls it. Each connection is made for one statement and ends with it: no lock, setting or prepared
statement outlives the call, and no caller finds what another one left. `docs/analytics.md` lists what stops what.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from formulary_catalog.domain.analytics.scope import AnalyticsScope
from formulary_catalog.domain.visible import visible
from formulary_catalog.errors import InvalidInput, NotSetUp, Overloaded, Unavailable
from formulary_catalog.store.analytics.backend import yield_processors
from formulary_catalog.store.database.connection import Database, translated
from formulary_catalog.store.database.migrate import CONNECT_FAILURES, connection_failure, describe

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

ROLE = "formulary_insight"
MAX_COLUMNS = 100
_CELL = 1000
"""Characters of a cell that leave the database; an answer shows fewer."""
_NUMBERS = frozenset({"bool", "int2", "int4", "int8", "float4", "float8"})
"""Types whose values are short and have a type in JSON."""
_OF_THE_STATEMENT = frozenset({"0A", "21", "22", "25", "2F", "42", "53", "54", "55"})
"""Classes of errors: feature not supported, cardinality, data, transaction state, function, syntax or access,
resources, limits, object not ready."""
_GRACE = 0.2
"""Seconds beyond those of a statement."""
_PATIENCE = 1.0
"""Seconds that a statement waits for its place."""
_LONGEST_MESSAGE = 300
_T = TypeVar("_T")

# A session that logged in as another role could go back to it, and `set_config` does that in the middle of a SELECT.
_CONFINED = f"""
select session_user = '{ROLE}'
   and not exists (
       select from pg_roles where rolname = session_user
         and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication))
   and not exists (select from pg_auth_members where member = session_user::regrole) as confined,
   coalesce(has_schema_privilege(to_regnamespace('insight'), 'usage'), false) as admitted
"""
_TRANSACTION = "select pg_backend_pid() || ' ' || extract(epoch from now())"
_KEY = "select key from formulary.insight_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLimits:
    """What one statement may take, and how many run at a time: a search needs a processor beside them.

    `niceness` holds where the database is on this machine. No limit is on what the planner expects: that follows from
    rows which the caller may not see, and so would a refusal.
    """

    seconds: float = 2.0
    connections: int = 1
    work_mem: str = "16MB"
    niceness: int = 10
    read_only: bool = True

    def session(self) -> dict[str, str]:
        """Settings of the connection."""
        milliseconds = f"{int(self.seconds * 1000)}ms"
        return {
            "search_path": "insight",
            "application_name": ROLE,
            "statement_timeout": milliseconds,
            "lock_timeout": "500ms",
            "idle_in_transaction_session_timeout": milliseconds,
            "client_connection_check_interval": "200ms",  # a statement ends soon after its caller has left
            "work_mem": self.work_mem,
            "hash_mem_multiplier": "1",
            "max_parallel_workers_per_gather": "0",
            "jit": "off",
            "standard_conforming_strings": "on",
            "default_transaction_read_only": "on" if self.read_only else "off",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a statement came to: at most one row more than was asked for."""

    columns: list[str]
    rows: list[Sequence[Any]]


async def run_prepared(connection: Connection, sql: str, *, at_most: int) -> Rows:
    """Run one SELECT as a prepared statement, which cannot hold a second one, inside a SELECT that bounds it.

    Raises:
        InvalidInput: it takes parameters, or returns no columns or too many.
    """
    statement = await connection.prepare(sql)
    if statement.get_parameters():
        raise _refusal("takes parameters such as $1; write the values")
    columns = statement.get_attributes()
    if not 0 < len(columns) <= MAX_COLUMNS:
        raise _refusal(f"returns {len(columns)} columns; select 1 to {MAX_COLUMNS}")
    names = [f"c{number}" for number in range(len(columns))]
    shown = ", ".join(_leaving(name, column.type) for name, column in zip(names, columns, strict=True))
    # The line breaks end a comment at the end of the statement.
    bounded = f"select {shown} from (\n{sql}\n) as answer ({', '.join(names)}) limit {at_most + 1}"
    rows = await connection.fetch(bounded)
    return Rows(columns=[column.name for column in columns], rows=[tuple(row) for row in rows])


def _leaving(name: str, type_: asyncpg.Type) -> str:
    """How a column leaves the database: short values as they are, decimal numbers as floats, arrays as JSON, all else
    as text."""
    if type_.schema == "pg_catalog" and type_.name in _NUMBERS:
        return name
    if type_.schema == "pg_catalog" and type_.name == "numeric":
        return f"{name}::float8"  # averages and sums are of this type, and read as numbers
    return f"left({f'to_json({name})' if type_.kind == 'array' else name}::text, {_CELL})"


async def require_confined(connection: Connection, *, dsn: str) -> None:
    """Raises NotSetUp if the session is not that of the role, or could be more than that."""
    found = await connection.fetchrow(_CONFINED)
    assert found is not None
    if not found["confined"]:
        raise NotSetUp(
            f"the user of FORMULARY_ANALYTICS_DATABASE_URL for {describe(dsn)} can do more than read `insight`; "
            f"log in as {ROLE}, which must be a member of no role"
        )
    if not found["admitted"]:
        raise NotSetUp(
            f"{ROLE} may not read `insight` in {describe(dsn)}; run `select insight.admit()` as the database's owner"
        )


class InsightDatabase:
    """Runs statements of callers. `run` and `require` are for tests that take one away."""

    def __init__(
        self,
        dsn: str,
        *,
        catalog: Database,
        limits: StatementLimits = StatementLimits(),
        run: Callable[..., Awaitable[Rows]] = run_prepared,
        require: Callable[..., Awaitable[None]] = require_confined,
    ) -> None:
        self._dsn = dsn
        self._catalog = catalog
        self._limits = limits
        self._run = run
        self._require = require
        self._places = asyncio.Semaphore(limits.connections)
        self._key: bytes | None = None

    async def query(self, sql: str, *, scope: AnalyticsScope, at_most: int) -> Rows:
        """The rows of one SELECT, one more than `at_most` if there are more.

        Raises:
            InvalidInput: the database refuses it, or it takes too long.
            Overloaded: others are being answered.
            NotSetUp: analytics is not set up.
            Unavailable: the database does not answer.
        """
        return await self.read(lambda connection: self._run(connection, sql, at_most=at_most), scope=scope)

    async def read(self, operation: Callable[[Connection], Awaitable[_T]], *, scope: AnalyticsScope) -> _T:
        """Run what only reads, in a transaction that sees the scope and is rolled back.

        Raises:
            InvalidInput, Overloaded, NotSetUp, Unavailable: as `query`.
        """
        key = await self._signing_key()
        async with self._place():
            try:
                async with translated(), asyncio.timeout(self._limits.seconds + _GRACE), self._session() as connection:
                    transaction = await connection.fetchval(_TRANSACTION)
                    for name, value in scope.settings(key=key, transaction=transaction).items():
                        await connection.execute(f"set local {name} = {_quoted(value)}")
                    try:
                        return await operation(connection)
                    except asyncpg.PostgresError as error:
                        if (refused := _refused(error, seconds=self._limits.seconds)) is not None:
                            raise refused from error
                        raise
            except Unavailable as error:
                if isinstance(error.__cause__, TimeoutError):
                    raise _too_slow(self._limits.seconds) from error
                raise

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """One of the places; a short statement before is waited for, a long one is not."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._places.acquire()
        except TimeoutError:
            raise Overloaded(
                "statements of others are being answered; retry in a few seconds",
                retry_after=self._limits.seconds,
            ) from None
        try:
            yield
        finally:
            self._places.release()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        """A transaction on a new connection, which ends with it."""
        if not self._dsn:
            raise NotSetUp(
                "analytics is not set up: name the database once more in FORMULARY_ANALYTICS_DATABASE_URL, with the "
                f"user {ROLE}"
            )
        try:
            connection = await asyncpg.connect(
                self._dsn, statement_cache_size=0, server_settings=self._limits.session()
            )
        except CONNECT_FAILURES as error:
            raise connection_failure(error, dsn=self._dsn) from error
        try:
            # To look types up, the driver would turn JIT off, which is off, by a function that the role may not call.
            capabilities = connection._server_caps._replace(jit=False)  # type: ignore[attr-defined]  # no public way
            connection._server_caps = capabilities  # type: ignore[attr-defined]
            await self._require(connection, dsn=self._dsn)
            yield_processors(connection.get_server_pid(), role=ROLE, niceness=self._limits.niceness)
            await connection.execute(
                f"begin isolation level repeatable read {'read only' if self._limits.read_only else 'read write'}"
            )
            yield connection
        except (TimeoutError, asyncio.CancelledError):
            connection.terminate()  # a goodbye would wait for the statement
            raise
        finally:
            with suppress(TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=_GRACE)

    async def _signing_key(self) -> bytes:
        if self._key is None:
            (row,) = await self._catalog.fetch(_KEY)
            self._key = bytes(row["key"])
        return self._key


def _refused(error: asyncpg.PostgresError, *, seconds: float) -> InvalidInput | None:
    """What the database says of the statement; None where it says something of itself."""
    if isinstance(error, asyncpg.QueryCanceledError):
        return _too_slow(seconds)
    if isinstance(error, asyncpg.OutOfMemoryError):
        return _refusal("takes more memory than it may; aggregate fewer rows, or shorter texts")
    if isinstance(error, asyncpg.ConfigurationLimitExceededError):
        return _refusal("sorts or joins more rows than it may; narrow it with WHERE, or aggregate before it sorts")
    state = str(getattr(error, "sqlstate", ""))
    if state[:2] not in _OF_THE_STATEMENT:
        return None
    said = _shortened(str(error.args[0] if error.args else error))
    hint = _shortened(str(getattr(error, "hint", None) or ""))
    return _refusal(f"is refused by PostgreSQL: {said}{f' ({hint})' if hint else ''}; correct it")


def _shortened(message: str) -> str:
    """One visible line. A long one, which quotes a long value, keeps its end: the rule that was broken stands there."""
    line = visible(" ".join(message.split()))
    half = _LONGEST_MESSAGE // 2
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:half]}…{line[-half:]}"


def _quoted(text: str) -> str:
    """A text in SQL; the session has standard strings. SET takes no parameters."""
    return "'" + text.replace("'", "''") + "'"


def _too_slow(seconds: float) -> InvalidInput:
    return _refusal(f"takes longer than {seconds:g} s; read less, by WHERE on a column, or aggregate fewer rows")


def _refusal(problem: str) -> InvalidInput:
    return InvalidInput(f"sql {problem}", field="sql")
