"""Runs that ended and whose outcome is not decided: read, observed, and decided once each.

`runs/verifying` of the operator calls it. A decision is one transaction with its event and what it says of the
workflow, and it finds the run undecided: neither a restart nor a second leader decides twice.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from formulary_catalog.domain.notifications.notices import notices_of_outcome
from formulary_catalog.domain.runs.outcome import FITNESS, Outcome, TargetWatch, Verdict
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.notifications import add_notices
from formulary_catalog.store.runs.ending import OPERATOR, changed_run
from formulary_catalog.store.runs.submission import COLUMNS, invocation_of, record_event

_AT_ONCE = 500
_ABANDONED_SECONDS = 900.0
"""So much later than it is due an outcome is decided by any leader: waiting for what measures takes less."""
_OPEN = "verify_at is not null and outcome = ''"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run whose outcome is not decided. `seconds`: from its end to the verdict; `is_due`: they are over.

    `is_abandoned`: no operator that watches its namespace has decided in time.
    """

    id: str
    namespace: str
    seconds: float
    is_due: bool
    is_abandoned: bool


class VerificationStore:
    """Keeps what was observed, and the outcome, as the writer's role.

    All methods raise `Unavailable` if the database does not answer, and those that write `Superseded` where another
    operator leads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open_runs(self, *, namespaces: Collection[str] = ()) -> list[OpenRun]:
        """The runs whose outcome is not decided, those that are due first.

        They are those of these namespaces, of all without any, and what was abandoned in others: that would stay open.
        """
        rows = await self._database.fetch(
            f"""
            select id, namespace, seconds, is_due, is_abandoned from (
                select id, namespace, verify_at, verify_at <= clock_timestamp() as is_due,
                       extract(epoch from verify_at - finished_at)::double precision as seconds,
                       $1::text[] <> '{{}}' and namespace <> all ($1)
                       and verify_at < clock_timestamp() - make_interval(secs => $2) as is_abandoned
                from invocation where {_OPEN}
            ) as open where $1 = '{{}}' or namespace = any ($1) or is_abandoned order by verify_at limit {_AT_ONCE}
            """,
            list(namespaces),
            _ABANDONED_SECONDS,
        )
        return [OpenRun(**row) for row in rows]

    async def find(self, invocation_id: str) -> tuple[Invocation, datetime] | None:
        """A run whose outcome is not decided, and the time of the database; None for any other."""
        rows = await self._database.fetch(
            f"select {COLUMNS}, clock_timestamp() as now from invocation where id = $1 and {_OPEN}", invocation_id
        )
        return (invocation_of(rows[0]), rows[0]["now"]) if rows else None

    async def watch(self, invocation_id: str) -> TargetWatch:
        """What was seen of the target of a run so far."""
        rows = await self._database.fetch("select observed from invocation where id = $1", invocation_id)
        return TargetWatch.from_json(rows[0]["observed"] if rows else {})

    async def other_run(self, run: Invocation, *, until: datetime) -> str:
        """The id of another run that may explain what became of the target of this one between its start and `until`.

        It ran then, or had ended and its own outcome was still open. A pod and its workload are the same target.
        """
        before = TargetWatch.from_json(run.observed).before
        found = await self._database.fetch(
            """
            select id from invocation as other
            where id <> $1 and started_at < $2 and (finished_at is null or greatest(finished_at, verify_at) > $3)
              and not dry_run and not degraded and reference <> '{}'
              and (target ->> 'name' = $4 and lower(target ->> 'kind') = lower($5)
                   or observed #>> '{before,name}' = $7)
              and coalesce(target ->> 'namespace', '') = $6
            order by started_at limit 1
            """,
            run.id,
            until,
            run.started_at,
            run.target.name,
            run.target.kind,
            run.target.namespace,
            before.name if before is not None else None,
        )
        return found[0]["id"] if found else ""

    async def note_before(self, invocation_id: str, *, watch: TargetWatch) -> None:
        """Note what was seen of its target before a run did anything."""
        await self._database.execute(
            "update invocation set observed = $2 where id = $1 and reference = '{}' and outcome = ''",
            invocation_id,
            watch.as_json(),
        )

    async def note(self, invocation_id: str, *, watch: TargetWatch) -> None:
        """Note what was seen of its target."""
        await self._database.execute(
            f"update invocation set observed = $2 where id = $1 and {_OPEN}", invocation_id, watch.as_json()
        )

    async def decide(self, invocation_id: str, verdict: Verdict) -> Invocation | None:
        """Keep the outcome of a run; None if it has one already, which stays."""

        async def write(connection: Connection) -> Invocation | None:
            locked = await connection.fetchval(
                f"select id from invocation where id = $1 and {_OPEN} for update", invocation_id
            )
            if locked is None:
                return None
            change = "outcome = $2, feedback = $3"
            run = await changed_run(connection, invocation_id, change, verdict.outcome, verdict.feedback)
            payload = {
                "workflow_id": f"{run.workflow_namespace}/{run.workflow_name}",
                "outcome": verdict.outcome,
                "fitness": FITNESS.get(verdict.outcome),
                "feedback": verdict.feedback,
                "observed": dict(run.observed),
            }
            await _count(connection, run)
            await add_notices(connection, notices_of_outcome(run))
            await record_event(connection, run, kind="invocation.verified", payload=payload, caller=OPERATOR)
            return run

        return await self._database.write(write)


async def _count(connection: Connection, run: Invocation) -> None:
    """Add one to what the runs of a version came to; what is not known counts nowhere."""
    if run.outcome == Outcome.UNKNOWN:
        return
    await connection.execute(
        """
        insert into workflow_outcome as outcome (version_id, succeeded, failed, helped, verified)
        values ($1, 0, 0, $2::boolean::integer, 1)
        on conflict (version_id) do update
        set helped = outcome.helped + excluded.helped, verified = outcome.verified + 1
        """,
        run.version_id,
        run.outcome == Outcome.HELPED,
    )
