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
# Row-level security holds for the owner as well; a policy shows all to the owner, and to members of that role. Another
# one shows all to the operator's role, in a session that says so.
_SHOWN_IN_PART = """
select exists (
    select from unnest(array['formulary.trace_event', 'formulary.trace_head']::regclass[]) as kept (id)
    where row_security_active(kept.id) and not exists (
        select from pg_policy where polrelid = kept.id and polname = any ($1)
          and exists (select from unnest(polroles) as role where pg_has_role(role, 'usage')))
)
"""


_KEEPS, _VERIFIES = "owner_keeps", "operator_verifies"


@asynccontextmanager
async def owner_connection(dsn: str, *, to_verify: bool = False) -> AsyncIterator[OwnerConnection]:
    """Connect; errors inside are raised as everywhere.

    `to_verify` lets in the operator's role too, which may read the whole trail and no more.

    Raises:
        StartupError, Unavailable: no connection could be made, or the schema is not the one this version needs.
    """
    await require_current_schema(dsn)
    try:
        connection = await asyncpg.connect(
            dsn,
            timeout=_CONNECT_TIMEOUT,
            server_settings={
                "search_path": "formulary, public",
                "jit": "off",
                **({"formulary.whole_trail": "on"} if to_verify else {}),
            },
        )
    except CONNECT_FAILURES as error:
        raise connection_failure(error, dsn=dsn) from error
    try:
        async with translated():
            # Where row-level security holds, the trail looks empty and whole.
            if await connection.fetchval(_SHOWN_IN_PART, [_KEEPS, _VERIFIES] if to_verify else [_KEEPS]):
                raise StartupError(
                    f"the user of {describe(dsn)} may not see all of the audit trail; connect as the database's owner"
                )
            yield connection
    finally:
        await connection.close(timeout=_CONNECT_TIMEOUT)
