"""Runs as rows: submitted, decided upon and read.

`services/runs/service` submits for agents, the operator for objects that people created. Request, limits, decision and
trail are one transaction. What the operator does later is in `store/runs/lifecycle`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import asyncpg

from formulary_catalog.domain.audit.sealing import Sealed
from formulary_catalog.domain.notifications.notices import notices_of_change
from formulary_catalog.domain.runs.admission_decision import RunState, Situation, judge, run_state
from formulary_catalog.domain.runs.input_keys import NO_KEYS, InputKeys, opened_salt, sealed_salt, sealed_values
from formulary_catalog.domain.runs.run import Invocation, NewInvocation, Phase, Reason, RunTarget, Source
from formulary_catalog.errors import FormularyError, InvalidInput, RateLimited
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS
from formulary_catalog.store.audit.events import TraceEvent, append_event
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.notifications import add_notices
from formulary_catalog.store.runs.halting import before_a_halt
from formulary_catalog.store.runs.situation import keep_basis, situation_of

_HOUR = 3600.0
ACTIVE = "phase in ('Pending', 'AwaitingApproval', 'Running')"
"""A condition on rows of runs: not over."""
_UNDER_WAY = "phase in ('Pending', 'Running')"
_REAL = "not dry_run and not degraded"
_DRY = "(dry_run or degraded)"
_CONCURRENT_RETRY = 30.0
COLUMNS = ", ".join(column.name for column in fields(Invocation))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """What one caller may have; 0 is no limit. `per_hour` and `concurrent` are of real runs, `dry_per_hour` of others.

    What waits for a person is not `concurrent`.
    """

    per_hour: int = 0
    concurrent: int = 0
    dry_per_hour: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The row of a request; `repeated` if it was there before, from the same request."""

    invocation: Invocation
    repeated: bool


class InvocationStore:
    """Takes requests for runs. All that belongs to one is written in one transaction, its trail included."""

    def __init__(
        self,
        database: Database,
        *,
        shared_namespace: str,
        keys: InputKeys = NO_KEYS,
        harmless: frozenset[str] = HARMLESS_ENVIRONMENTS,
    ) -> None:
        self._database = database
        self._shared_namespace = shared_namespace
        self._keys = keys
        self._harmless = harmless

    async def submit(
        self,
        new: NewInvocation,
        *,
        limits: CallerLimits = CallerLimits(),
        manifest: Mapping[str, Any] | None = None,
        no_executor: FormularyError | None = None,
    ) -> Submitted:
        """Decide upon a request and keep it. With a `manifest` it is a dry run that is over already.

        What the rules forbid is kept too, as a run that failed. `no_executor` says why nothing could run it now; then
        what they do not forbid is not kept.

        Raises:
            FormularyError: `no_executor`, unless the rules forbid the run.
            InvalidInput: the idempotency key was used for another request.
            NotInvocable: it has sensitive input, and there is no key to encrypt that with.
            RateLimited: the caller has as many runs as it may have.
            Unavailable: the database does not answer; nothing was written.
        """

        async def write(connection: Connection) -> Submitted:
            await enter(
                connection,
                caller=new.requester,
                invocation_id=new.id,
                namespaces=(self._shared_namespace, new.namespace),
            )
            await before_a_halt(connection)
            # One request of a caller at a time: what is counted and looked up here must still hold at the end.
            await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 5))", new.requester)
            if (known := await _repeated(connection, new, keys=self._keys)) is not None:
                return Submitted(invocation=known, repeated=True)
            if not new.dry_run:
                await _check_limits(connection, caller=new.requester, limits=limits)
            situation = await situation_of(connection, new, namespaces=(self._shared_namespace, new.namespace))
            state = run_state(judge(new.facts, situation, harmless=self._harmless), dry_run=new.dry_run, starting=False)
            if no_executor is not None and not state.phase.is_final:
                raise no_executor
            if new.dry_run or state.degraded:
                await _check_hour(
                    connection, caller=new.requester, limit=limits.dry_per_hour, counted=_DRY, name="dry runs"
                )
            row = await _insert(connection, new, state=state, manifest=manifest, keys=self._keys)
            await _record_request(connection, new)
            await record_decision(connection, new, state, facts=new.facts, situation=situation)
            await add_notices(connection, notices_of_change(None, row))
            if row.phase is Phase.SUCCEEDED:
                ended = {"phase": row.phase, "reason": row.reason, "message": "", "outputs": {}}
                await record_event(connection, row, kind="invocation.finished", payload=ended)
            return Submitted(invocation=row, repeated=False)

        return await self._database.write(write)

    async def repeated(self, new: NewInvocation) -> Submitted | None:
        """The run that the same request became before; None where it is a new one.

        Raises:
            InvalidInput: the idempotency key was used for another request.
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> Submitted | None:
            await enter(connection, caller=new.requester, invocation_id=new.id, namespaces=())
            known = await _repeated(connection, new, keys=self._keys)
            return Submitted(invocation=known, repeated=True) if known is not None else None

        return await self._database.read(read)

    async def find(self, invocation_id: str) -> Invocation | None:
        """One run by its id.

        Raises:
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> Invocation | None:
            await enter(connection, caller="", invocation_id=invocation_id, namespaces=())
            row = await connection.fetchrow(f"select {COLUMNS} from invocation where id = $1", invocation_id)
            return invocation_of(row) if row is not None else None

        return await self._database.read(read)


async def enter(connection: Connection, *, caller: str, invocation_id: str, namespaces: tuple[str, ...]) -> None:
    """Name to row-level security what this transaction is about."""
    await connection.execute(
        "select set_config('formulary.caller', $1, true), set_config('formulary.invocation', $2, true), "
        "set_config('formulary.namespaces', $3, true)",
        caller,
        invocation_id,
        ",".join(namespaces),
    )


def invocation_of(row: asyncpg.Record) -> Invocation:
    """A row as the domain has it."""
    return Invocation(
        **{
            **{column.name: row[column.name] for column in fields(Invocation)},
            "source": Source(row["source"]),
            "phase": Phase(row["phase"]),
            "target": RunTarget.from_json(row["target"]),
        }
    )


async def _repeated(connection: Connection, new: NewInvocation, *, keys: InputKeys) -> Invocation | None:
    row = await connection.fetchrow(f"select {COLUMNS}, request_hash, salt from invocation where id = $1", new.id)
    if row is None:
        return None
    if row["request_hash"] != new.request_hash(salt=opened_salt(keys, row["salt"], run=new.id)):
        raise InvalidInput(
            f"this idempotency_key was used for another request, which became {new.id}; use a new key for a new run, "
            "or repeat the same request to hear of that one",
            field="idempotency_key",
        )
    return invocation_of(row)


async def _check_limits(connection: Connection, *, caller: str, limits: CallerLimits) -> None:
    if limits.concurrent:
        running = await connection.fetchval(
            f"select count(*) from invocation where requester = $1 and {_UNDER_WAY} and {_REAL}", caller
        )
        if running >= limits.concurrent:
            raise RateLimited(
                f"{caller} has {running} runs under way, and may have {limits.concurrent} at a time; wait for "
                f"one to end, then retry in {_CONCURRENT_RETRY:.0f} s",
                retry_after=_CONCURRENT_RETRY,
            )
    await _check_hour(connection, caller=caller, limit=limits.per_hour, counted=_REAL, name="runs")


async def _check_hour(connection: Connection, *, caller: str, limit: int, counted: str, name: str) -> None:
    """Whether there is room for one more run within this hour; `counted` is a condition on the rows that count."""
    if not limit:
        return
    # The oldest of the last so many runs: when it is an hour old there is room again.
    age = await connection.fetchval(
        f"""
        select extract(epoch from clock_timestamp() - created_at)::double precision from invocation
        where requester = $1 and {counted} and created_at > clock_timestamp() - interval '1 hour'
        order by created_at desc offset $2 limit 1
        """,
        caller,
        limit - 1,
    )
    if age is not None:
        wait = max(1.0, _HOUR - age)
        raise RateLimited(
            f"{caller} has asked for {limit} {name} within an hour, which is all it may; retry in {wait:.0f} s",
            retry_after=wait,
        )


async def _insert(
    connection: Connection,
    new: NewInvocation,
    *,
    state: RunState,
    manifest: Mapping[str, Any] | None,
    keys: InputKeys,
) -> Invocation:
    has_secret = bool(new.secret) and not new.dry_run
    over = manifest is not None and not state.phase.is_final
    phase, reason = (Phase.SUCCEEDED, Reason.DRY_RUN) if over else (state.phase, state.reason)
    row = await connection.fetchrow(
        f"""
        insert into invocation (
            id, source, namespace, object_name, object_uid, workflow_namespace, workflow_name, workflow_version,
            version_id, document, input, target, facts, remediation_id, analysis, search_id, requester,
            timeout_seconds, idempotency_key, request_hash, trace_id, dry_run, degraded, phase, reason, message,
            decision, manifest, salt, finished_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                $23, $24, $25, $26, $27, $28, $29, case when $30 then clock_timestamp() end)
        returning {COLUMNS}
        """,
        new.id,
        new.source,
        new.namespace,
        new.object_name,
        new.object_uid,
        new.workflow_namespace,
        new.workflow_name,
        new.workflow_version,
        new.version_id,
        dict(new.document),
        new.recorded_input,
        new.target.as_json(),
        dict(new.facts),
        new.remediation_id,
        new.analysis,
        new.search_id,
        new.requester,
        new.timeout_seconds,
        new.idempotency_key,
        new.request_hash(salt=new.salt),
        new.trace_id,
        new.dry_run,
        state.degraded,
        phase,
        reason,
        state.decision.message,
        state.decision.as_json(),
        dict(manifest or {}),
        sealed_salt(keys, new.salt, run=new.id) if has_secret else new.salt,
        phase.is_final,
    )
    assert row is not None
    if has_secret and not state.degraded and not phase.is_final:
        await connection.execute(
            "insert into invocation_secret (invocation_id, sealed) values ($1, $2)",
            new.id,
            sealed_values(keys, new.secret, run=new.id),
        )
    return invocation_of(row)


async def _record_request(connection: Connection, new: NewInvocation) -> None:
    requested = {
        "invocation_id": new.id,
        "workflow_id": f"{new.workflow_namespace}/{new.workflow_name}",
        "version": new.workflow_version,
        "version_id": new.version_id,
        "namespace": new.namespace,
        "target": new.target.as_json(),
        "input": new.recorded_input,
        "timeout_seconds": new.timeout_seconds,
        "dry_run": new.dry_run,
        "analysis": new.analysis,
    }
    await record_event(connection, new, kind="invocation.requested", payload=requested, sealed=new.sealed)


async def record_decision(
    connection: Connection,
    run: NewInvocation | Invocation,
    state: RunState,
    *,
    facts: Mapping[str, Any],
    situation: Situation,
    caller: str = "",
) -> None:
    """Put a decision into the trail, and keep what it turned on."""
    await keep_basis(connection, run, state.decision, facts=facts, situation=situation)
    payload = {**state.decision.as_json(), "phase": state.phase, "reason": state.reason}
    await record_event(connection, run, kind="invocation.decided", payload=payload, caller=caller)


async def record_event(
    connection: Connection,
    run: NewInvocation | Invocation,
    *,
    kind: str,
    payload: Mapping[str, Any],
    caller: str = "",
    sealed: Sealed | None = None,
) -> None:
    """Append an event to the trail of a run, in the transaction of what it records."""
    await append_event(
        connection,
        TraceEvent(
            trace_id=run.trace_id,
            kind=kind,
            caller=caller or run.requester,
            payload={"invocation_id": run.id, **payload},
            search_id=run.search_id,
            sealed=sealed,
        ),
    )
