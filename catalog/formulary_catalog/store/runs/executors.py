"""Who can run workflows, with which engines, and what it does where the author of one is unknown."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from formulary_catalog.domain.runs.facts import UnknownAuthors
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

    async def on_author(self, *, namespace: str, workflow_namespace: str, version_id: str) -> UnknownAuthors:
        """What becomes of a run in `namespace` by who wrote the version of the workflow; RUN if that is known.

        Of several executors that run things there the strictest counts, among those alive; the last one, if none is.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> UnknownAuthors:
            rows = await connection.fetch(
                """
                with responsible as (
                    select unknown_authors, at from executor where namespaces = '{}' or $1 = any (namespaces)
                )
                select distinct unknown_authors from responsible
                where not author_known($2, $3) and at >= least(
                    clock_timestamp() - make_interval(secs => $4), (select max(at) from responsible))
                """,
                namespace,
                workflow_namespace,
                version_id,
                SILENT_SECONDS,
            )
            found = (UnknownAuthors(row["unknown_authors"]) for row in rows)
            return max(found, key=lambda policy: policy.strength, default=UnknownAuthors.RUN)

        return await self._database.read(read)


class ExecutorWriter:
    """Announces an executor, as the writer's role. The operator calls it again and again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def announce(
        self,
        *,
        name: str,
        engines: Sequence[str],
        namespaces: Collection[str] = (),
        unknown_authors: UnknownAuthors = UnknownAuthors.RUN,
    ) -> None:
        """Say that we are there to run things: with what, in which namespaces, and what we do with unknown authors.

        Without `namespaces` it is in all of them.
        """
        await self._database.execute(
            """
            insert into executor (name, engines, namespaces, unknown_authors) values ($1, $2, $3, $4)
            on conflict (name) do update
            set engines = excluded.engines, namespaces = excluded.namespaces,
                unknown_authors = excluded.unknown_authors, at = clock_timestamp()
            """,
            name,
            sorted(engines),
            sorted(namespaces),
            unknown_authors,
        )
