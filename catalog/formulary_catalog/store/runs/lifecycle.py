"""Runs as the operator brings them on: begun, followed, ended. One transaction for each step, its trail included.

The reconciler of runs and `runs/execution` of the operator call it. Rows are locked, so that a run begins once however
many operators try, and none begins after a halt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.notifications.notices import notices_of_change
from formulary_catalog.domain.runs.admission_decision import judge, overdue, run_state
from formulary_catalog.domain.runs.input_keys import NO_KEYS, InputKeys, opened_values
from formulary_catalog.domain.runs.outcome import TargetState
from formulary_catalog.domain.runs.run import Invocation, NewInvocation, Phase, Reason
from formulary_catalog.domain.runs.start_checks import TargetNow, Withdrawn
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.notifications import add_notices
from formulary_catalog.store.runs.ending import OPERATOR, changed_run, end_run, forget_secret
from formulary_catalog.store.runs.halting import before_a_halt
from formulary_catalog.store.runs.situation import facts_at_start, situation_of
from formulary_catalog.store.runs.submission import (
    ACTIVE,
    COLUMNS,
    InvocationStore,
    Submitted,
    invocation_of,
    record_decision,
    record_event,
)

_UNREPORTED_AT_ONCE = 50
_NO_OBJECT = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """A run that is not over, as far as one has to know to look at it; `age_seconds` counts from when it was asked."""

    id: str
    namespace: str
    object_name: str
    phase: Phase
    age_seconds: float
    halted: bool


class RunWriter:
    """Moves runs on, as the writer's role. `strict_keys` and `harmless` are those of the settings."""

    def __init__(
        self,
        database: Database,
        *,
        shared_namespace: str,
        keys: InputKeys = NO_KEYS,
        strict_keys: frozenset[str] = frozenset(),
        harmless: frozenset[str] = HARMLESS_ENVIRONMENTS,
    ) -> None:
        self._database = database
        self._shared_namespace = shared_namespace
        self._keys = keys
        self._strict_keys = strict_keys
        self._harmless = harmless
        self._store = InvocationStore(database, shared_namespace=shared_namespace, keys=keys, harmless=harmless)

    async def submit(self, new: NewInvocation) -> Submitted:
        """As `InvocationStore.submit`, for a run that somebody asked for in the cluster; nobody's limits apply."""
        return await self._store.submit(new)

    async def active(self) -> list[ActiveRun]:
        """The runs that are not over, oldest first."""
        rows = await self._database.fetch(
            f"""
            select id, namespace, object_name, phase, halted <> '' as halted,
                   extract(epoch from clock_timestamp() - created_at)::double precision as age_seconds
            from invocation where {ACTIVE} order by created_at, id
            """
        )
        return [ActiveRun(**{**row, "phase": Phase(row["phase"])}) for row in rows]

    async def find(self, invocation_id: str) -> Invocation | None:
        """One run by its id."""
        return await self._store.find(invocation_id)

    async def active_of(self, *, namespace: str, name: str) -> list[Invocation]:
        """The runs of all objects that had this name, as far as they are not over, newest first."""

        async def read(connection: Connection) -> list[Invocation]:
            rows = await connection.fetch(
                f"select {COLUMNS} from invocation "
                f"where namespace = $1 and object_name = $2 and {ACTIVE} order by created_at desc",
                namespace,
                name,
            )
            return [invocation_of(row) for row in rows]

        return await self._database.read(read)

    async def unreported(self, *, namespace: str = "", name: str = "") -> list[Invocation]:
        """The runs of the last hour that were denied as soon as the server was asked for them, and have no object yet.

        With a name, those whose object would have it.
        """

        async def read(connection: Connection) -> list[Invocation]:
            rows = await connection.fetch(
                f"""
                select {COLUMNS} from invocation
                where source = 'server' and phase = 'Failed' and reason = 'Denied' and object_uid = ''
                  and created_at > clock_timestamp() - interval '1 hour'
                  and ($2 = '' or namespace = $1 and object_name = $2)
                order by created_at limit {_UNREPORTED_AT_ONCE}
                """,
                namespace,
                name,
            )
            return [invocation_of(row) for row in rows]

        return await self._database.read(read)

    async def begin(
        self,
        invocation_id: str,
        *,
        content: Mapping[str, Any] | None = None,
        known: Mapping[str, bool] | None = None,
        target: TargetNow = None,
    ) -> Invocation | None:
        """Decide by what is true now and, if the rules allow it, note that the run begins; it must not begin again.

        Its workflow and its incident are read again: what is suspended, deleted or labelled otherwise by now is not
        run, nor what labels of a target constrain where `target` does not say them. `content` is what would run now,
        with its `digest`; approvals of other content do not count. `known` are the facts that the operator alone
        knows, as `domain.governance.gate.RunFacts` names them. The run as it stands then; None if there is none.

        Raises:
            Unavailable: the database does not answer; the run may have begun.
        """

        async def write(connection: Connection) -> Invocation | None:
            await before_a_halt(connection)
            run = await _locked(connection, invocation_id)
            if run is None or run.phase not in (Phase.PENDING, Phase.AWAITING_APPROVAL):
                return run
            if run.halted:
                return await end_run(connection, run, phase=Phase.HALTED, reason=Reason.HALTED, message=run.halted)
            if content is not None and content != run.content:
                run = await _with_content(connection, run, content=content)
            namespaces = (self._shared_namespace, run.namespace)
            situation = await situation_of(connection, run, namespaces=namespaces)
            if late := overdue(run, now=situation.now):
                return await end_run(
                    connection, run, phase=Phase.TIMED_OUT, reason=Reason.DEADLINE_EXCEEDED, message=late
                )
            facts = await facts_at_start(connection, run, target=target, strict_keys=self._strict_keys)
            if isinstance(facts, Withdrawn):
                return await end_run(connection, run, phase=Phase.FAILED, reason=facts.reason, message=facts.message)
            facts = {**facts, **(known or {})}
            decision = judge(facts, situation, harmless=self._harmless)
            state = run_state(decision, dry_run=run.dry_run, starting=True, degraded=run.degraded)
            if state.phase is run.phase and state.decision.message == run.message:
                return run
            began = state.phase is Phase.RUNNING
            changed = await changed_run(
                connection,
                run.id,
                "phase = $2, reason = $3, message = $4, decision = $5, degraded = $6, "
                "started_at = case when $7 then clock_timestamp() end, "
                "finished_at = case when $8 then clock_timestamp() end",
                state.phase,
                state.reason,
                state.decision.message,
                state.decision.as_json(),
                state.degraded,
                began,
                state.phase.is_final,
            )
            await record_decision(connection, changed, state, facts=facts, situation=situation, caller=OPERATOR)
            again = situation.approved_other_content
            await add_notices(connection, notices_of_change(run.phase, changed, again=again))
            if began:
                payload = {"dry_run": not changed.runs_for_real}
                await record_event(connection, changed, kind="invocation.started", payload=payload, caller=OPERATOR)
            if state.phase.is_final:
                await forget_secret(connection, run.id)
            return changed

        return await self._database.write(write)

    async def leave_to_start(self, invocation_id: str, *, seconds: float, target: TargetNow = None) -> int | None:
        """Leave to create, within so many seconds, what does the work of a run; `started` gives it back.

        A halt waits for it to be given back or to end. It is a write: who leads no more gets an error instead. None
        for a run that has not begun, is over, or was halted, and for one that is not allowed any more, which is ended.
        """

        async def write(connection: Connection) -> int | None:
            await before_a_halt(connection)
            await connection.execute("delete from run_start where until < clock_timestamp()")
            run = await _locked(connection, invocation_id)
            if run is None or run.phase is not Phase.RUNNING or run.halted:
                return None
            facts = await facts_at_start(connection, run, target=target, strict_keys=self._strict_keys)
            if isinstance(facts, Withdrawn):
                await end_run(connection, run, phase=Phase.FAILED, reason=facts.reason, message=facts.message)
                return None
            return int(
                await connection.fetchval(
                    """
                    insert into run_start (namespace, until)
                    values ($1, clock_timestamp() + make_interval(secs => $2)) returning id
                    """,
                    run.namespace,
                    seconds,
                )
            )

        return await self._database.write(write)

    async def started(self, leave: int) -> None:
        """Give leave back: what it was for is created, or will not be."""
        await self._database.execute("delete from run_start where id = $1", leave)

    async def nonce(self, invocation_id: str) -> str:
        """What nobody can know of a run before it is written into what the operator makes for it."""
        rows = await self._database.fetch("select nonce from invocation where id = $1", invocation_id)
        return str(rows[0]["nonce"] or "") if rows else ""

    async def note_object(self, invocation_id: str, *, uid: str) -> None:
        """Note the WorkflowInvocation that represents a run in the cluster."""
        await self._database.execute(
            "update invocation set object_uid = $2 where id = $1 and object_uid <> $2", invocation_id, uid
        )

    async def note_no_object(self, invocation_id: str) -> None:
        """Note that a denied run can have no object."""
        await self.note_object(invocation_id, uid=_NO_OBJECT)

    async def note_reference(self, invocation_id: str, *, reference: Mapping[str, Any]) -> None:
        """Note what runs it: apiVersion, kind, name and uid of a Job or the like."""

        async def write(connection: Connection) -> None:
            run = await _locked(connection, invocation_id)
            if run is not None and dict(run.reference) != dict(reference):
                await changed_run(connection, invocation_id, "reference = $2", dict(reference))

        await self._database.write(write)

    async def note_reason(self, invocation_id: str, *, reason: Reason, message: str) -> Invocation | None:
        """Note what keeps a run that has begun, or that nothing does any more; one that is over stays as it ended."""

        async def write(connection: Connection) -> Invocation | None:
            run = await _locked(connection, invocation_id)
            if run is None or run.phase is not Phase.RUNNING:
                return run
            return await changed_run(connection, invocation_id, "reason = $2, message = $3", reason, message)

        return await self._database.write(write)

    async def finish(
        self,
        invocation_id: str,
        *,
        phase: Phase,
        reason: str,
        message: str,
        outputs: Mapping[str, Any] | None = None,
        manifest: Mapping[str, Any] | None = None,
        target: TargetState | None = None,
    ) -> Invocation | None:
        """Note how a run ended, and what that says about its workflow; a run that is over stays as it ended.

        `target` is what was seen of its target as it ended.
        """

        async def write(connection: Connection) -> Invocation | None:
            run = await _locked(connection, invocation_id)
            if run is None or run.phase.is_final:
                return run
            return await end_run(
                connection,
                run,
                phase=phase,
                reason=reason,
                message=message,
                outputs=outputs,
                manifest=manifest,
                target=target,
            )

        return await self._database.write(write)

    async def cancel(self, invocation_id: str, *, message: str) -> Invocation | None:
        """Note that a run is given up."""
        return await self.finish(invocation_id, phase=Phase.CANCELLED, reason=Reason.CANCELLED, message=message)

    async def secret(self, invocation_id: str) -> Mapping[str, Any]:
        """The values that the run needs and nobody may keep; empty once they were handed over.

        Raises:
            NotInvocable: no key decrypts them.
        """

        async def read(connection: Connection) -> Mapping[str, Any]:
            row = await connection.fetchrow(
                "select content, sealed from invocation_secret where invocation_id = $1", invocation_id
            )
            if row is None:
                return {}
            if row["sealed"] is None:  # written by a server of a release that did not encrypt
                return dict(row["content"])
            return opened_values(self._keys, row["sealed"], run=invocation_id)

        return await self._database.read(read)

    async def forget_secret(self, invocation_id: str) -> None:
        """Delete these values: they are where the run reads them."""
        await self._database.write(lambda connection: forget_secret(connection, invocation_id))


async def _locked(connection: Connection, invocation_id: str) -> Invocation | None:
    row = await connection.fetchrow(f"select {COLUMNS} from invocation where id = $1 for update", invocation_id)
    return invocation_of(row) if row is not None else None


async def _with_content(connection: Connection, run: Invocation, *, content: Mapping[str, Any]) -> Invocation:
    """The run with what it would run. Approvals that were given before anything was rendered are of this."""
    changed = await changed_run(connection, run.id, "content = $2", dict(content))
    await connection.execute(
        "update invocation_approval set digest = $2 where invocation_id = $1 and digest = ''",
        run.id,
        changed.content_digest,
    )
    return changed
