"""Halts in force, and the order in which runs start and halts begin.

Whatever accepts, begins or starts a run takes the shared lock, whatever begins a halt the exclusive one: no run starts
after a halt has been answered. Servers and the operator read halts with `HaltReader`.
"""

from collections.abc import Iterable

from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.store.database.connection import Connection, Database

COLUMNS = "namespace, contract, reason, by, at, trace_id, source"
"""Of a row, as `Halt` has them."""
_ORDER = 7204113606
"""An advisory lock: shared by all that accept, begin or start a run, exclusive for a halt."""


async def before_a_halt(connection: Connection) -> None:
    """Have this transaction precede every halt whose effect it does not see. Taken before any lock on a row."""
    await connection.execute("select pg_advisory_xact_lock_shared($1)", _ORDER)


async def after_all_starts(connection: Connection) -> None:
    """Keep runs from being accepted, begun or started until this transaction ends."""
    await connection.execute("select pg_advisory_xact_lock($1)", _ORDER)


async def halts_of(connection: Connection, namespace: str) -> tuple[Halt, ...]:
    """The halts that hold for runs in a namespace, as far as the transaction may see them."""
    rows = await connection.fetch(
        f"select {COLUMNS} from halt where namespace in ('', $1) order by namespace, contract",
        namespace,
    )
    return tuple(Halt(**row) for row in rows)


class HaltReader:
    """Reads what is halted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def in_force(self, namespaces: Iterable[str] = ()) -> list[Halt]:
        """The halts of everywhere and of these namespaces; a writer gets all.

        Raises:
            Unavailable: the database does not answer.
        """
        named = ",".join(sorted(namespaces))

        async def read(connection: Connection) -> list[Halt]:
            if named:
                await connection.execute("select set_config('formulary.namespaces', $1, true)", named)
            rows = await connection.fetch(f"select {COLUMNS} from halt order by namespace, contract")
            return [Halt(**row) for row in rows]

        return await self._database.read(read)
