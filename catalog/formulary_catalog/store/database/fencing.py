"""A fence around the writes of a leader: once another one leads, what the former still wants to write is refused.

A Lease alone cannot do that: a process may be held up between reading an object and writing it, for longer than its
lease lasts.
"""

from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.connection import Connection, Database


class Superseded(FormularyError):
    """Another process leads now; nothing was written."""


async def fence(database: Database, *, name: str) -> None:
    """Begin to lead under a name: every later write of `database` fails once somebody else has begun.

    Writes of a former leader that are under way are waited for.

    Raises:
        Unavailable: the database does not answer.
    """

    async def begin(connection: Connection) -> int:
        return int(
            await connection.fetchval(
                """
                insert into leadership (name, epoch) values ($1, 1)
                on conflict (name) do update set epoch = leadership.epoch + 1 returning epoch
                """,
                name,
            )
        )

    epoch = await database.write(begin)

    async def require(connection: Connection) -> None:
        # With the lock, the next leader waits for the write that follows.
        ours = "select true from leadership where name = $1 and epoch = $2 for share"
        if not await connection.fetchval(ours, name, epoch):
            raise Superseded("another operator leads now; this one ends")

    database.before_writes(require)
