"""How operators last compared their cluster with the catalog: one row for each, named by its Lease.

The operator writes after every resync, the health of the server reads. There are only numbers in it, which anybody who
is let in may know.
"""

from dataclasses import dataclass
from datetime import datetime

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.workflows.sweeps import SweepRefusal

_COLUMNS = "operator, finished_at, listed, differed, sweep, missing, served"
_OVERDUE = "finished_at + make_interval(secs => 2 * every_seconds + 60) < clock_timestamp()"
"""Two more should have finished since, whatever each took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedResync:
    """A comparison that finished: of `listed` objects and what was stored, `differed` were queued to be reconciled.

    `sweep` is the id of a removal that was refused, of `missing` workflows of the `served` ones; empty if none was.
    `overdue`: the next one should have finished long ago.
    """

    operator: str
    finished_at: datetime
    listed: int
    differed: int
    sweep: str
    missing: int
    served: int
    overdue: bool


class ResyncWriter:
    """Notes them, as the writer's role."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(
        self, operator: str, *, listed: int, differed: int, refused: SweepRefusal | None, every_seconds: float
    ) -> None:
        """Keep this as the last one of its operator, which finished now; the next one begins in `every_seconds`.

        A database belongs to one operator: what another one, under a former Lease, should have done is forgotten.

        Raises:
            Superseded: another operator leads.
            Unavailable: the database does not answer.
        """
        await self._database.execute(
            f"""
            with former as (delete from resync where operator <> $1 and {_OVERDUE})
            insert into resync (operator, finished_at, every_seconds, listed, differed, sweep, missing, served)
            values ($1, clock_timestamp(), $2, $3, $4, $5, $6, $7)
            on conflict (operator) do update
            set finished_at = excluded.finished_at, every_seconds = excluded.every_seconds, listed = excluded.listed,
                differed = excluded.differed, sweep = excluded.sweep, missing = excluded.missing,
                served = excluded.served
            """,
            operator,
            every_seconds,
            listed,
            differed,
            *((refused.id, len(refused.missing), refused.served) if refused is not None else ("", 0, 0)),
        )


class ResyncReader:
    """Reads them, as the server's role."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[FinishedResync]:
        """The last one of each operator, by its name.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch(f"select {_COLUMNS}, {_OVERDUE} as overdue from resync order by operator")
        return [FinishedResync(**row) for row in rows]
