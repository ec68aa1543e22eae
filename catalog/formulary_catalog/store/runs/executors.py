"""Who can run workflows, and with which engines."""

from dataclasses import dataclass

from formulary_catalog.store.database.connection import Connection, Database

SILENT_SECONDS = 60.0
"""An executor that has said nothing for so long is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """What is there now: `engines` of those alive; `known` if there ever was one."""

    engines: frozenset[str]
    alive: bool
    known: bool


class ExecutorReader:
    """Reads what executors announce."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def present(self) -> Executors:
        """What can run workflows now.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> Executors:
            rows = await connection.fetch(
                "select engines, at > clock_timestamp() - make_interval(secs => $1) as alive from executor",
                SILENT_SECONDS,
            )
            alive = [row["engines"] for row in rows if row["alive"]]
            return Executors(
                engines=frozenset(engine for engines in alive for engine in engines),
                alive=bool(alive),
                known=bool(rows),
            )

        return await self._database.read(read)
