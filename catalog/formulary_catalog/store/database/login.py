"""Whether a role could undo what confines the server: who owns something can alter it, and take its protection away.

`formulary serve` asks about the user that it logged in as, before it is ready: a role that it has taken on can be put
off again. `formulary doctor` asks about the server's role.
"""

from typing import TYPE_CHECKING

from formulary_catalog.errors import PrivilegedLogin
from formulary_catalog.store.database.connection import Connection, Database, Role

if TYPE_CHECKING:
    from formulary_catalog.store.database.owner import OwnerConnection

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


async def held_privileges(connection: "Connection | OwnerConnection", role: str) -> tuple[str, ...]:
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
