"""What was asked of the catalog, as far as a caller may know: weak queries, signals, and the use of workflows.

`services/workflows/coverage` and `services/workflows/upkeep` compare it with what the catalog holds.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from formulary_catalog.domain.coverage.answers import WeakQuery
from formulary_catalog.domain.coverage.stale import Use
from formulary_catalog.domain.workflows.labels import NO, WILDCARD
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import enter


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Whose searches and incidents count: those of the caller, and those of these namespaces; None for all."""

    namespaces: frozenset[str] | None
    caller: str

    @property
    def in_namespaces(self) -> list[str] | None:
        """As the functions of the database take them."""
        return None if self.namespaces is None else sorted(self.namespaces)


class Demand(NamedTuple):
    """How often a signal was asked for, and how many incidents have it."""

    asked: int = 0
    fired: int = 0


class DeclaredSignal(NamedTuple):
    """A signal as a workflow spells it, and how many workflows declare it."""

    name: str
    workflows: int


class DemandReader:
    """Reads under row-level security, and through functions that count for one caller. All raise `Unavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def declared(
        self, signals: Collection[str] | None, *, namespaces: frozenset[str] | None, at_most: int
    ) -> dict[str, DeclaredSignal]:
        """Those of these folded signals that visible workflows declare, by the folded one; None asks for all."""

        async def read(connection: Connection) -> dict[str, DeclaredSignal]:
            await enter(connection, namespaces=namespaces)
            rows = await connection.fetch(
                """
                select signal_type, min(signal_name) as name, count(*) as workflows from workflow_search
                where signal_type not in ('', $1) and ($2::text[] is null or signal_type = any ($2::text[]))
                group by signal_type order by signal_type limit $3
                """,
                WILDCARD,
                None if signals is None else sorted(signals),
                at_most,
            )
            return {row["signal_type"]: DeclaredSignal(row["name"], row["workflows"]) for row in rows}

        return await self._database.read(read)

    async def left_without(self, key: str, *, namespaces: frozenset[str] | None) -> tuple[int, int]:
        """How many visible workflows say `no` to a standard key, and how many there are."""

        async def read(connection: Connection) -> tuple[int, int]:
            await enter(connection, namespaces=namespaces)
            row = await connection.fetchrow(
                "select count(*) filter (where custom -> $1 ? $2) as left, count(*) as served "
                "from workflow_search where leading_row",
                key,
                NO,
            )
            assert row is not None
            return row["left"], row["served"]

        return await self._database.read(read)

    async def of_signals(self, signals: Collection[str], asking: Asking, *, since: datetime) -> dict[str, Demand]:
        """The demand for these signals by the signal in lower case; those without any are left out."""
        rows = await self._database.fetch(
            "select * from formulary.demand_for($1::text[], $2::text[], $3, $4)",
            sorted(signals),
            asking.in_namespaces,
            asking.caller,
            since,
        )
        return {row["signal"]: Demand(row["asked"], row["fired"]) for row in rows}

    async def weak_queries(self, asking: Asking, *, since: datetime, sure: float, at_most: int) -> list[WeakQuery]:
        """The queries that ended with nothing or below this confidence, the most frequent first."""
        rows = await self._database.fetch(
            "select * from formulary.weak_queries($1::text[], $2, $3, $4, $5)",
            asking.in_namespaces,
            asking.caller,
            since,
            sure,
            at_most,
        )
        return [
            WeakQuery(
                query=row["query"] or "",
                times=row["times"],
                unanswered=row["unanswered"],
                best_confidence=row["best"],
            )
            for row in rows
        ]

    async def uses(self, asking: Asking, *, since: datetime) -> dict[str, Use]:
        """How versions were used, by version id; those that were not are left out."""
        rows = await self._database.fetch(
            "select * from formulary.uses_of_workflows($1::text[], $2, $3)",
            asking.in_namespaces,
            asking.caller,
            since,
        )
        return {row["version_id"]: Use(row["found"], row["first"], row["chosen"]) for row in rows}
