"""What the tables of `insight` are: names, comments, how many rows a caller sees, statistics of columns."""

from dataclasses import dataclass

from formulary_catalog.domain.analytics.answers import (
    ColumnLine,
    ColumnStatistics,
    TableLine,
    TableList,
    TableSchema,
    TableStatistics,
)
from formulary_catalog.domain.analytics.scope import AnalyticsScope
from formulary_catalog.domain.analytics.statement import SCHEMA, TABLES
from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.analytics.connection import InsightDatabase
from formulary_catalog.store.analytics.sessions import Connection

_NUMBERS = frozenset({"smallint", "integer", "bigint", "real", "double precision", "numeric"})
_TIMES = frozenset({"timestamp with time zone", "timestamp without time zone", "date"})
_COMMENTS = """
select relname::text as name, obj_description(oid, 'pg_class') as description from pg_class
where relnamespace = 'insight'::regnamespace and relkind = 'v'
"""
_COLUMNS = """
select attname::text as name, format_type(atttypid, atttypmod) as type, not attnotnull as nullable,
       coalesce(col_description(attrelid, attnum), '') as description
from pg_attribute where attrelid = ('insight.' || $1)::regclass and attnum > 0 and not attisdropped order by attnum
"""


@dataclass(frozen=True, slots=True)
class InsightTables:
    """Answers about tables, for the scope of a caller."""

    database: InsightDatabase

    async def listed(self, *, scope: AnalyticsScope) -> TableList:
        """All tables with the rows that the scope shows; without numbers where counting takes too long.

        Raises:
            Overloaded, NotSetUp, Unavailable: as `InsightDatabase.query`.
        """
        comments = await self.database.read(lambda connection: connection.fetch(_COMMENTS), scope=scope)
        described = {row["name"]: row["description"] or "" for row in comments}
        counting = " union all ".join(
            f"select '{table}' as name, count(*) as rows from {SCHEMA}.{table}" for table in TABLES
        )
        try:
            found = await self.database.read(lambda connection: connection.fetch(counting), scope=scope)
        except InvalidInput:
            found = []
        counted: dict[str, int] = {row["name"]: row["rows"] for row in found}
        return TableList(
            tables=[
                TableLine(name=f"{SCHEMA}.{table}", description=described[table], rows=counted.get(table))
                for table in TABLES
            ]
        )

    async def schema(self, table: str, *, scope: AnalyticsScope) -> TableSchema:
        """The columns of a table that exists.

        Raises:
            Overloaded, NotSetUp, Unavailable: as `InsightDatabase.query`.
        """

        async def read(connection: Connection) -> TableSchema:
            described = {row["name"]: row["description"] or "" for row in await connection.fetch(_COMMENTS)}
            return TableSchema(
                table=f"{SCHEMA}.{table}", description=described[table], columns=await _columns(connection, table)
            )

        return await self.database.read(read, scope=scope)

    async def statistics(self, table: str, *, scope: AnalyticsScope) -> TableStatistics:
        """Statistics of the columns of a table that exists.

        Raises:
            InvalidInput: it takes too long.
            Overloaded, NotSetUp, Unavailable: as `InsightDatabase.query`.
        """

        async def read(connection: Connection) -> TableStatistics:
            columns = await _columns(connection, table)
            aggregates = ", ".join(f"array[{', '.join(_aggregates(column))}]" for column in columns)
            values = await connection.fetchrow(f"select {aggregates} from {SCHEMA}.{table}")
            assert values is not None
            return TableStatistics(
                table=f"{SCHEMA}.{table}",
                columns=[_statistics(column, found) for column, found in zip(columns, values, strict=True)],
            )

        return await self.database.read(read, scope=scope)


async def _columns(connection: Connection, table: str) -> list[ColumnLine]:
    return [ColumnLine(**row) for row in await connection.fetch(_COLUMNS, table)]


def _aggregates(column: ColumnLine) -> list[str]:
    """As text, since a column has values of several types."""
    name = column.name
    found = [f"count({name})::text", f"(count(*) - count({name}))::text"]
    if column.type in _NUMBERS | _TIMES:
        found += [f"min({name})::text", f"max({name})::text"]
    if column.type in _NUMBERS:
        found += [
            f"avg({name})::float8::text",
            f"stddev_samp({name})::float8::text",
            f"percentile_cont(0.5) within group (order by {name}::float8)::text",
            f"percentile_cont(0.95) within group (order by {name}::float8)::text",
        ]
    return found


def _statistics(column: ColumnLine, found: list[str | None]) -> ColumnStatistics:
    count, nulls, *others = found
    bounds = others[:2]
    least, greatest = (
        (_number(value) for value in bounds) if column.type in _NUMBERS and bounds else (bounds or (None, None))
    )
    mean, stddev, p50, p95 = (_number(value) for value in others[2:] or [None] * 4)
    return ColumnStatistics(
        name=column.name,
        count=int(count or 0),
        nulls=int(nulls or 0),
        min=least,
        max=greatest,
        mean=mean,
        stddev=stddev,
        p50=p50,
        p95=p95,
    )


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
