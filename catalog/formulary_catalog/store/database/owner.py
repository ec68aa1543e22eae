"""A connection as the owner of the database, for what no role of ours may do: read the whole trail, drop parts.

And whether a role could undo what confines the server: who owns something can alter it, and take its protection away.
`formulary serve` asks about the user that it logged in as, before it is ready: a role that it has taken on can be put
off again. `formulary doctor` asks about the server's role.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from formulary_catalog.errors import PrivilegedLogin, StartupError
from formulary_catalog.store.database.connection import Connection, Database, Role, translated
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
# What belongs to whom; temporary tables go with the session that made them.
_HELD = """
with me as (select oid, rolsuper, rolbypassrls from pg_roles where rolname = $1),
owned (owner, what) as (
    select datdba, 'the database' from pg_database where datname = current_database()
    union all select nspowner, 'schema ' || nspname from pg_namespace
    union all select relowner, 'table ' || oid::regclass from pg_class
        where relkind in ('r', 'p', 'v', 'm', 'f') and relpersistence <> 't'
    union all select proowner, 'function ' || proname from pg_proc
)
select 'does not exist' where not exists (select from me)
union all select 'is a superuser' from me where rolsuper
union all select 'bypasses row-level security' from me where rolbypassrls
union all select 'owns ' || min(what) from me join owned on owner = oid having count(*) > 0
union all select 'may act as the role that owns ' || min(what) from me join owned
    on owner <> oid and not rolsuper and pg_has_role(oid, owner, 'MEMBER') having count(*) > 0
"""


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


async def held_privileges(connection: Connection | OwnerConnection, role: str) -> tuple[str, ...]:
    """What a role can do in this database that the server must not be able to."""
    return tuple(row[0] for row in await connection.fetch(_HELD, role))


async def require_plain_login(database: Database) -> None:
    """Check that the user of the connection is confined, whatever role it has taken on.

    Raises:
        PrivilegedLogin: it is not.
        Unavailable: the database does not answer.
    """

    async def read(connection: Connection) -> tuple[str, ...]:
        return await held_privileges(connection, await connection.fetchval("select session_user::text"))

    if held := await database.read(read):
        raise PrivilegedLogin(
            f"the database user of the server {', '.join(held)}, so the server could switch row-level security off; "
            f"connect as {Role.SERVER}: give it a password (`alter role {Role.SERVER} login password '…'`) and put its "
            "address into FORMULARY_DATABASE_URL (chart: database.external.serverKey)"
        )
