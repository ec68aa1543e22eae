"""Analytics as the commands see it: behind a running server, or straight from a database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from formulary_catalog.cli.http_client import Remote, connected, incident_headers
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.analytics.answers import QueryAnswer, TableList, TableSchema, TableStatistics
from formulary_catalog.domain.search.request import ContextReference

if TYPE_CHECKING:
    from formulary_catalog.analytics.service import AnalyticsService

_SECONDS = 20.0
_CALLER = Caller(name="local", access=EVERYTHING)


class Analytics(Protocol):
    """The questions of `formulary query` and `formulary tables`. Errors are `FormularyError`s."""

    async def query(self, sql: str, *, max_rows: int) -> QueryAnswer:
        """The rows of one SELECT."""

    async def tables(self) -> TableList:
        """All tables."""

    async def schema(self, table: str) -> TableSchema:
        """The columns of a table."""

    async def sample(self, table: str, *, n: int) -> QueryAnswer:
        """Some rows of a table."""

    async def statistics(self, table: str) -> TableStatistics:
        """Statistics of the columns of a table."""


class StoredAnalytics:
    """Analytics on a database that this process reads itself."""

    def __init__(self, service: "AnalyticsService", *, remediation_id: str) -> None:
        from formulary_catalog.analytics.service import WHOLE_BYTES

        self._service = service
        self._context = ContextReference(remediation_id=remediation_id)
        self._max_bytes = WHOLE_BYTES

    async def query(self, sql: str, *, max_rows: int) -> QueryAnswer:
        return await self._service.execute_query(
            sql,
            context=self._context,
            caller=_CALLER,
            max_rows=max_rows,
            max_bytes=self._max_bytes,
            browsing=True,
        )

    async def tables(self) -> TableList:
        return await self._service.list_tables(context=self._context, caller=_CALLER, browsing=True)

    async def schema(self, table: str) -> TableSchema:
        return await self._service.get_schema(table, context=self._context, caller=_CALLER, browsing=True)

    async def sample(self, table: str, *, n: int) -> QueryAnswer:
        return await self._service.get_sample(
            table, context=self._context, caller=_CALLER, n=n, max_bytes=self._max_bytes, browsing=True
        )

    async def statistics(self, table: str) -> TableStatistics:
        return await self._service.describe_stats(table, context=self._context, caller=_CALLER, browsing=True)


class ServedAnalytics:
    """Analytics behind the REST side of a running server."""

    def __init__(self, server: Remote, *, remediation_id: str) -> None:
        self._server = server
        self._headers = incident_headers(remediation_id)

    async def query(self, sql: str, *, max_rows: int) -> QueryAnswer:
        body = {"sql": sql, "max_rows": max_rows}
        return await self._server.answer(QueryAnswer, "POST", "/analytics/query", json=body, headers=self._headers)

    async def tables(self) -> TableList:
        return await self._server.answer(TableList, "GET", "/analytics/tables", headers=self._headers)

    async def schema(self, table: str) -> TableSchema:
        path = f"/analytics/tables/{quote(table, safe='')}"
        return await self._server.answer(TableSchema, "GET", path, headers=self._headers)

    async def sample(self, table: str, *, n: int) -> QueryAnswer:
        path = f"/analytics/tables/{quote(table, safe='')}/sample"
        return await self._server.answer(QueryAnswer, "GET", path, params={"n": n}, headers=self._headers)

    async def statistics(self, table: str) -> TableStatistics:
        path = f"/analytics/tables/{quote(table, safe='')}/statistics"
        return await self._server.answer(TableStatistics, "GET", path, headers=self._headers)


@asynccontextmanager
async def served_analytics(url: str, *, token: str, remediation_id: str) -> AsyncIterator[Analytics]:
    """Analytics of the server at this address, asked with a bearer token if there is one.

    Raises:
        InvalidInput: it is no HTTP address, or the token could not be sent.
    """
    async with connected(url, token=token, seconds=_SECONDS) as server:
        yield ServedAnalytics(server, remediation_id=remediation_id)
