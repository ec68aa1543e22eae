"""SQL of callers: one statement, on a connection of its own, as a role that can only read the views of `insight`.

`services/analytics` calls it. Each connection is made for one statement and ends with it: no lock, setting or
prepared statement outlives the call, and no caller finds what another one left. `docs/analytics.md` lists what stops
what.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from formulary_catalog.domain.analytics.scope import AnalyticsScope
from formulary_catalog.domain.visible import visible
from formulary_catalog.errors import InvalidInput, Unavailable
from formulary_catalog.store.analytics.sessions import LIMITS, Connection, Sessions, StatementLimits, require_confined
from formulary_catalog.store.database.connection import Database, translated

MAX_COLUMNS = 100
_CELL = 1000
"""Characters of a cell that leave the database; an answer shows fewer."""
_NUMBERS = frozenset({"bool", "int2", "int4", "int8", "float4", "float8"})
"""Types whose values are short and have a type in JSON."""
_OF_THE_STATEMENT = frozenset({"0A", "21", "22", "25", "2F", "42", "53", "54", "55"})
"""Classes of errors: feature not supported, cardinality, data, transaction state, function, syntax or access,
resources, limits, object not ready."""
_LONGEST_MESSAGE = 300
_T = TypeVar("_T")

_TRANSACTION = "select pg_backend_pid() || ' ' || extract(epoch from now())"
_KEY = "select key from formulary.insight_key"


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


class InsightDatabase:
    """Runs statements of callers. `run` and `require` are for tests that take one away."""

    def __init__(
        self,
        dsn: str,
        *,
        catalog: Database,
        limits: StatementLimits = LIMITS,
        run: Callable[..., Awaitable[Rows]] = run_prepared,
        require: Callable[..., Awaitable[None]] = require_confined,
    ) -> None:
        self._catalog = catalog
        self._seconds = limits.seconds
        self._run = run
        self._sessions = Sessions(dsn, limits=limits, require=require)
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
        try:
            async with translated(), self._sessions.opened() as connection:
                transaction = await connection.fetchval(_TRANSACTION)
                for name, value in scope.settings(key=key, transaction=transaction).items():
                    await connection.execute(f"set local {name} = {_quoted(value)}")
                try:
                    return await operation(connection)
                except asyncpg.PostgresError as error:
                    if (refused := _refused(error, seconds=self._seconds)) is not None:
                        raise refused from error
                    raise
        except Unavailable as error:
            if isinstance(error.__cause__, TimeoutError):
                raise _too_slow(self._seconds) from error
            raise

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
