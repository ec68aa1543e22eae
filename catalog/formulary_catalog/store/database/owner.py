"""A connection as the owner of the database, for what no role of ours may do: read the whole trail, drop parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from formulary_catalog.errors import StartupError
from formulary_catalog.store.database.connection import translated
from formulary_catalog.store.database.migrate import (
    CONNECT_FAILURES,
    connection_failure,
    describe,
    require_current_schema,
)

if TYPE_CHECKING:
    OwnerConnection = asyncpg.Connection[asyncpg.Record]
else:
    OwnerConnection = asyncpg.Connection

_CONNECT_TIMEOUT = 10


@asynccontextmanager
async def owner_connection(dsn: str) -> AsyncIterator[OwnerConnection]:
    """Connect; errors inside are raised as everywhere.

    Raises:
        StartupError, Unavailable: no connection could be made, or the schema is not the one this version needs.
    """
    await require_current_schema(dsn)
    try:
        connection = await asyncpg.connect(
            dsn, timeout=_CONNECT_TIMEOUT, server_settings={"search_path": "formulary, public", "jit": "off"}
        )
    except CONNECT_FAILURES as error:
        raise connection_failure(error, dsn=dsn) from error
    try:
        async with translated():
            # Where row-level security holds, the trail looks empty and whole.
            if await connection.fetchval("select row_security_active('formulary.trace_event')"):
                raise StartupError(
                    f"the user of {describe(dsn)} may not see all of the audit trail; connect as the database's owner"
                )
            yield connection
    finally:
        await connection.close(timeout=_CONNECT_TIMEOUT)
