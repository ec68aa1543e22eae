"""Who can run workflows, and with which engines."""

from collections.abc import Sequence
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


class ExecutorWriter:
    """Announces an executor, as the writer's role. The operator calls it again and again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def announce(self, *, name: str, engines: Sequence[str]) -> None:
        """Say that we are there to run things, and with what."""
        await self._database.execute(
            """
            insert into executor (name, engines) values ($1, $2)
            on conflict (name) do update set engines = excluded.engines, at = clock_timestamp()
            """,
            name,
            sorted(engines),
        )
