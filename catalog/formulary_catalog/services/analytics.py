"""Answers SQL of callers over `insight`, and what its tables are. Edges call it: MCP tools, REST, `formulary query`.

Who asks needs a right of its own, asks under its incident if the call names one, and leaves an event in the trail with
the statement, its rows and its time. What a statement can do is bounded below, in `store/analytics/connection`.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self

from cachetools import TTLCache

from formulary_catalog.domain.access import ANALYSE, READ_INVOCATIONS, USE_CONTEXTS, Caller, Right
from formulary_catalog.domain.analytics.answers import (
    DEFAULT_SAMPLE,
    MAX_ROWS,
    QueryAnswer,
    TableList,
    TableSchema,
    TableStatistics,
    query_answer,
)
from formulary_catalog.domain.analytics.scope import AnalyticsScope
from formulary_catalog.domain.analytics.statement import MAX_LENGTH, SCHEMA, require_table, single_select
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import RateLimited
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import CallScope, namespaces_with
from formulary_catalog.settings import Settings
from formulary_catalog.store.analytics.connection import InsightDatabase
from formulary_catalog.store.analytics.tables import InsightTables

DEFAULT_BYTES = 8 * 1024
"""What a model reads of an answer."""
WHOLE_BYTES = 1024**2
"""What a program or a person gets."""
_MINUTE = 60.0
_CALLERS = 10_000


class AnalyticsService:
    """The service behind the analytics tools. `right`, `check` and `rate` are for tests that take one away."""

    def __init__(
        self,
        *,
        parts: CatalogParts,
        database: InsightDatabase,
        rate: "Rate",
        right: Right | None = ANALYSE,
        check: Callable[[str], str] = single_select,
    ) -> None:
        self._parts = parts
        self._database = database
        self._tables = InsightTables(database)
        self._rate = rate
        self._right = right
        self._check = check

    @classmethod
    def on(cls, parts: CatalogParts, *, settings: Settings) -> Self:
        """The service on the database of a catalog. Nothing is asked of it yet."""
        return cls(
            parts=parts,
            database=InsightDatabase(settings.analytics_database_url, catalog=parts.database),
            rate=Rate(settings.analytics_per_minute),
        )

    async def execute_query(
        self,
        sql: str,
        *,
        context: ContextReference,
        caller: Caller,
        max_rows: int = MAX_ROWS,
        browsing: bool = False,
    ) -> QueryAnswer:
        """The rows of one SELECT over the tables of `insight`; `browsing` as in `Visibility.of`.

        Raises:
            InvalidInput: it is no such statement, the database refuses it, or it takes too long.
            RateLimited, Overloaded: the caller, or all callers together, ask too much.
            ContextError, NotAllowed, NotSetUp, Unavailable: nothing may be returned.
        """
        arguments = {"sql": sql[: MAX_LENGTH + 1], "max_rows": max_rows}
        async with self._recorded("query", arguments, context, caller, browsing=browsing) as (record, scope):
            statement = await asyncio.to_thread(self._check, sql)  # long statements take long to read
            return await self._answer(statement, scope=scope, record=record, max_rows=max_rows, whole=browsing)

    async def get_sample(
        self,
        table: str,
        *,
        context: ContextReference,
        caller: Caller,
        n: int = DEFAULT_SAMPLE,
        browsing: bool = False,
    ) -> QueryAnswer:
        """Some rows of a table.

        Raises:
            InvalidInput: there is no such table.
            Others: as `execute_query`.
        """
        arguments = {"table": table, "n": n}
        async with self._recorded("sample", arguments, context, caller, browsing=browsing) as (record, scope):
            sql = f"select * from {SCHEMA}.{require_table(table)} limit {n}"
            return await self._answer(sql, scope=scope, record=record, max_rows=n, whole=browsing)

    async def list_tables(self, *, context: ContextReference, caller: Caller, browsing: bool = False) -> TableList:
        """The tables, what they hold, and how many rows of each the caller sees.

        Raises:
            As `execute_query`, but for InvalidInput.
        """
        async with self._recorded("tables", {}, context, caller, browsing=browsing) as (record, scope):
            listed = await self._tables.listed(scope=scope)
            record.result = {"rows": len(listed.tables)}
            return listed

    async def get_schema(
        self, table: str, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> TableSchema:
        """The columns of a table.

        Raises:
            InvalidInput: there is no such table.
            Others: as `execute_query`.
        """
        async with self._recorded("columns", {"table": table}, context, caller, browsing=browsing) as (
            record,
            scope,
        ):
            schema = await self._tables.schema(require_table(table), scope=scope)
            record.result = {"rows": len(schema.columns)}
            return schema

    async def describe_stats(
        self, table: str, *, context: ContextReference, caller: Caller, browsing: bool = False
    ) -> TableStatistics:
        """Statistics of the columns of a table, over the rows that the caller sees.

        Raises:
            InvalidInput: there is no such table, or it takes too long.
            Others: as `execute_query`.
        """
        arguments = {"table": table}
        async with self._recorded("column_statistics", arguments, context, caller, browsing=browsing) as (
            record,
            scope,
        ):
            statistics = await self._tables.statistics(require_table(table), scope=scope)
            record.result = {"rows": len(statistics.columns)}
            return statistics

    async def _answer(
        self, sql: str, *, scope: AnalyticsScope, record: Record, max_rows: int, whole: bool
    ) -> QueryAnswer:
        found = await self._database.query(sql, scope=scope, at_most=max_rows)
        most = WHOLE_BYTES if whole else DEFAULT_BYTES
        answer = query_answer(sql, columns=found.columns, rows=found.rows, max_rows=max_rows, max_bytes=most)
        record.result = {"rows": answer.row_count, "truncated": answer.truncated}
        return answer

    @asynccontextmanager
    async def _recorded(
        self, what: str, arguments: dict[str, Any], context: ContextReference, caller: Caller, *, browsing: bool
    ) -> AsyncIterator[tuple[Record, AnalyticsScope]]:
        """The record of a call that may be made, and what it may see."""
        async with self._parts.trail.record(
            f"read.{what}", caller=caller, reference=context, arguments=arguments
        ) as record:
            if self._right is not None:
                await caller.require(self._right, namespace=None)
            self._rate.count(caller.name)
            yield record, await self._scope(context, caller=caller, record=record, browsing=browsing)

    async def _sees_suspended(self, call: CallScope, *, caller: Caller) -> bool:
        """Whether the caller may see suspended workflows wherever it may see workflows."""
        where = await self._parts.visibility.suspended_in(call, caller=caller)
        return where is None or (call.namespaces is not None and where >= call.namespaces)

    async def _scope(
        self, reference: ContextReference, *, caller: Caller, record: Record, browsing: bool
    ) -> AnalyticsScope:
        call = await self._parts.visibility.of(reference, caller=caller, record=record, browsing=browsing)
        incidents, runs = await asyncio.gather(
            *(namespaces_with(caller, right, among=call.concerned) for right in (USE_CONTEXTS, READ_INVOCATIONS))
        )
        everything = AnalyticsScope(
            caller=caller.name,
            namespaces=call.namespaces,
            incidents=incidents,
            runs=runs,
            suspended=browsing and await self._sees_suspended(call, caller=caller),
        )
        if call.context is None:
            return everything
        return replace(
            everything,
            remediation_id=call.context.remediation_id,
            versions=await self._parts.workflows.allowed_versions(
                constraints=self._parts.finder.constraints(call), namespaces=call.namespaces
            ),
        )


class Rate:
    """`per_minute` calls of each caller within any minute. `clock` is in seconds."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._calls: TTLCache[str, deque[float]] = TTLCache(_CALLERS, ttl=_MINUTE, timer=clock)

    def count(self, caller: str) -> None:
        """Count a call.

        Raises:
            RateLimited: the caller has had its calls.
        """
        now = self._clock()
        calls = self._calls.get(caller, deque())
        while calls and calls[0] <= now - _MINUTE:
            calls.popleft()
        if len(calls) >= self._per_minute:
            wait = math.ceil(calls[0] + _MINUTE - now)
            raise RateLimited(
                f"{caller} has run {len(calls)} statements within a minute, which is the most; retry in {wait} s",
                retry_after=wait,
            )
        calls.append(now)
        self._calls[caller] = calls
