"""Runs that are not over, contracts and halts, as somebody reads them who may read those of some namespaces."""

from collections import Counter
from collections.abc import Collection
from datetime import date, datetime

from formulary_catalog.domain.governance.contract import Contract, contract
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.runs.run import Invocation, Reason, true_state
from formulary_catalog.errors import InvalidInput
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.runs.halting import HALT_COLUMNS
from formulary_catalog.store.runs.submission import ACTIVE, COLUMNS, invocation_of

_ALL = "*"
_CHANGED_SOMETHING = "started_at is not null and reference <> '{}' and not dry_run and not degraded"
"""Real runs for which an object of an engine was created."""
_COUNTED = f"{_CHANGED_SOMETHING} and phase not in ('Cancelled', 'Halted')"
"""Which runs say something of their workflow, as outcomes count them."""
_WAITS = "phase = 'AwaitingApproval'"


class ReviewReader:
    """Reads under row-level security: what belongs to these namespaces, None for all, and the caller's own runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(
        self,
        *,
        caller: str,
        namespaces: frozenset[str] | None,
        namespace: str = "",
        only: str = "",
        trace_id: str = "",
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> tuple[list[Invocation], int]:
        """The runs that wait for an approval, the oldest first, after the row `after`; and how many wait in all.

        `only` is the id of one that is looked for, `trace_id` that of the trace to which they belong.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> tuple[list[Invocation], int]:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            at, id_ = after or (None, "")
            rows = await connection.fetch(
                f"""
                select {COLUMNS} from invocation
                where {_WAITS} and $1 in ('', namespace) and $5 in ('', id) and $6 in ('', trace_id)
                  and ($2::timestamptz is null or (created_at, id) > ($2, $3))
                order by created_at, id limit $4
                """,
                namespace,
                at,
                id_,
                limit,
                only,
                trace_id,
            )
            total: int = await connection.fetchval(
                f"select count(*) from invocation where {_WAITS} and $1 in ('', namespace) and $2 in ('', id) "
                "and $3 in ('', trace_id)",
                namespace,
                only,
                trace_id,
            )
            return [invocation_of(row) for row in rows], total

        return await self._database.read(read)

    async def namespaces_of_waiting(self, *, at_most: int) -> list[str]:
        """The namespaces in which runs wait for an approval, the longest wait first. For the server alone.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[str]:
            await enter_review(connection, caller="", namespaces=None)
            rows = await connection.fetch(
                f"select namespace from invocation where {_WAITS} group by 1 order by min(created_at), 1 limit $1",
                at_most,
            )
            return [row["namespace"] for row in rows]

        return await self._database.read(read)

    async def page(
        self,
        *,
        caller: str,
        namespaces: frozenset[str] | None,
        namespace: str = "",
        phases: Collection[str] | None = None,
        before: tuple[datetime, str] | None = None,
        limit: int,
    ) -> list[Invocation]:
        """Runs, the newest first: of one namespace, in one of these phases, and after the row `before`, where given.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[Invocation]:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            at, id_ = before or (None, "")
            rows = await connection.fetch(
                f"""
                select {COLUMNS} from invocation
                where $1 in ('', namespace) and ($2::text[] is null or phase = any ($2))
                  and ($3::timestamptz is null or (created_at, id) < ($3, $4))
                order by created_at desc, id desc limit $5
                """,
                namespace,
                None if phases is None else sorted(phases),
                at,
                id_,
                limit,
            )
            return [invocation_of(row) for row in rows]

        return await self._database.read(read)

    async def states(self, *, caller: str, namespaces: frozenset[str] | None, since: datetime) -> dict[str, int]:
        """What became of the runs that were asked for since then: how many in each state, the most frequent first.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> dict[str, int]:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            rows = await connection.fetch(
                """
                select phase, dry_run or degraded as dry, started_at is not null as started, outcome, count(*) as runs
                from invocation where created_at >= $1 group by 1, 2, 3, 4 order by 5 desc, 1, 2, 3, 4
                """,
                since,
            )
            states: Counter[str] = Counter()
            for row in rows:
                state = true_state(row["phase"], dry=row["dry"], started=row["started"], outcome=row["outcome"])
                states[state] += row["runs"]
            return dict(states.most_common())

        return await self._database.read(read)

    async def not_over(
        self, version_ids: list[str], *, caller: str, namespaces: frozenset[str] | None, remediation_id: str
    ) -> dict[str, int]:
        """How many runs of these versions there are in each phase but the last ones; of one incident, where given.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> dict[str, int]:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            rows = await connection.fetch(
                f"select phase, count(*) from invocation where version_id = any ($1) and {ACTIVE} "
                "and $2 in ('', remediation_id) group by phase",
                version_ids,
                remediation_id,
            )
            return {row["phase"]: row["count"] for row in rows}

        return await self._database.read(read)

    async def last_run(
        self, version_ids: list[str], *, caller: str, namespaces: frozenset[str] | None, remediation_id: str
    ) -> datetime | None:
        """When a run of one of these versions was last asked for; of one incident, where given.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> datetime | None:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            which = "select created_at from invocation where version_id = any ($1) and $2 in ('', remediation_id)"
            at: datetime | None = await connection.fetchval(
                f"""
                select max(created_at) from (
                    {which} and finished_at is not null union all {which} and {ACTIVE}
                ) as run
                """,
                version_ids,
                remediation_id,
            )
            return at

        return await self._database.read(read)

    async def ended_by_day(
        self, *, caller: str, namespaces: frozenset[str] | None, version_ids: list[str] | None, since: datetime
    ) -> list[tuple[date, int, int]]:
        """Each day (UTC) on which real runs ended since then, oldest first: how many succeeded, and how many did not.

        Without those for which nothing was created. Those of some versions, None for all.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[tuple[date, int, int]]:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select (finished_at at time zone 'UTC')::date as day,
                       count(*) filter (where phase = 'Succeeded') as succeeded,
                       count(*) filter (where phase <> 'Succeeded') as failed
                from invocation
                where finished_at >= $1 and {_CHANGED_SOMETHING}
                  and ($2::text[] is null or version_id = any ($2))
                group by 1 order by 1
                """,
                since,
                version_ids,
            )
            return [(row["day"], row["succeeded"], row["failed"]) for row in rows]

        return await self._database.read(read)

    async def unpulled(self, *, caller: str, namespaces: frozenset[str] | None, since: datetime) -> dict[str, datetime]:
        """The versions whose newest real run since then could not pull its image, with when that run ended.

        Runs that were cancelled or halted say nothing.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> dict[str, datetime]:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            rows = await connection.fetch(
                f"""
                select version_id, max(finished_at) as at from invocation as unpulled
                where finished_at >= $1 and reason = $2 and {_COUNTED} and not exists (
                    select from invocation as later
                    where later.version_id = unpulled.version_id and later.finished_at > unpulled.finished_at
                      and later.reason <> $2 and {_COUNTED}
                )
                group by version_id
                """,
                since,
                Reason.IMAGE_NOT_PULLED,
            )
            return {row["version_id"]: row["at"] for row in rows}

        return await self._database.read(read)

    async def contracts(
        self, *, caller: str, namespaces: frozenset[str] | None
    ) -> tuple[list[Contract], list[Contract]]:
        """The contracts in force; apart, without rules, those of a newer release, whose rules this one does not know.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> tuple[list[Contract], list[Contract]]:
            await enter_review(connection, caller=caller, namespaces=namespaces)
            known, unknown = [], []
            for row in await connection.fetch("select namespace, name, spec from governance_contract order by 1, 2"):
                try:
                    known.append(contract(row["spec"], name=row["name"], namespace=row["namespace"]))
                except InvalidInput:
                    unknown.append(Contract(name=row["name"], namespace=row["namespace"]))
            return known, unknown

        return await self._database.read(read)

    async def halts(self, *, namespaces: frozenset[str] | None) -> list[Halt]:
        """The halts of everywhere and of these namespaces.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> list[Halt]:
            await enter_review(connection, caller="", namespaces=namespaces)
            rows = await connection.fetch(f"select {HALT_COLUMNS} from halt order by namespace, contract")
            return [Halt(**row) for row in rows]

        return await self._database.read(read)


async def enter_review(connection: Connection, *, caller: str, namespaces: frozenset[str] | None) -> None:
    """Name to row-level security the namespaces whose runs and contracts may be read, None for all, and the caller."""
    reviewed = _ALL if namespaces is None else ",".join(sorted(namespaces))
    await connection.execute(
        "select set_config('formulary.caller', $1, true), set_config('formulary.reviewed', $2, true)", caller, reviewed
    )
