"""The end of a run as it is written: how it ended, what that says of its workflow, and when its outcome is due.

`store/runs/lifecycle` calls it in the transaction that ends a run. Whether it helped is decided later, by
`store/runs/verification`.
"""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.alerts.reading import is_alert_id
from formulary_catalog.domain.notifications.notices import notices_of_change
from formulary_catalog.domain.runs.outcome import TargetState, TargetWatch, of_stopped, window_of
from formulary_catalog.domain.runs.run import Invocation, Phase
from formulary_catalog.store.database.connection import Connection
from formulary_catalog.store.notifications import add_notices
from formulary_catalog.store.runs.submission import COLUMNS, invocation_of, record_event

OPERATOR = "formulary-operator"
"""Who is recorded for what nobody asked for."""


async def changed_run(connection: Connection, invocation_id: str, change: str, *values: object) -> Invocation:
    """A run that is locked, with a change: `$1` is its id, `$2` the first of the values."""
    row = await connection.fetchrow(
        f"update invocation set {change}, revision = revision + 1 where id = $1 returning {COLUMNS}",
        invocation_id,
        *values,
    )
    assert row is not None, "the row is locked"
    return invocation_of(row)


async def end_run(
    connection: Connection,
    run: Invocation,
    *,
    phase: Phase,
    reason: str,
    message: str,
    outputs: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    target: TargetState | None = None,
) -> Invocation:
    """Note how a run that is locked ended, with its trail, and that its outcome is still to be decided."""
    ended = await changed_run(
        connection,
        run.id,
        "phase = $2, reason = $3, message = $4, outputs = $5, manifest = $6, finished_at = clock_timestamp()",
        phase,
        reason,
        message,
        dict(outputs or {}),
        dict(manifest or {}),
    )
    payload = {
        "phase": phase,
        "reason": reason,
        "message": message,
        "outputs": dict(outputs or {}),
        "duration_seconds": ended.duration_seconds,
        "reference": dict(ended.reference),
    }
    kind = "invocation.cancelled" if phase is Phase.CANCELLED else "invocation.finished"
    await record_event(connection, ended, kind=kind, payload=payload, caller=OPERATOR)
    await add_notices(connection, notices_of_change(run.phase, ended))
    await forget_secret(connection, run.id)
    if not (ended.reference and ended.runs_for_real):  # without an object of an engine nothing was changed
        return ended
    await _count_end(connection, ended)
    return await _begin_verification(connection, ended, target=target)


async def forget_secret(connection: Connection, invocation_id: str) -> None:
    """Delete the sensitive values of a run."""
    await connection.execute("delete from invocation_secret where invocation_id = $1", invocation_id)


async def _begin_verification(connection: Connection, run: Invocation, *, target: TargetState | None) -> Invocation:
    """Have `store/runs/verification` decide whether it helped; of what was stopped that is never known."""
    assert run.finished_at is not None
    if run.phase in (Phase.CANCELLED, Phase.HALTED):
        known = of_stopped(run.phase)
        change = "verify_at = finished_at, outcome = $2, feedback = $3"
        return await changed_run(connection, run.id, change, known.outcome, known.feedback)
    seconds = window_of(run.document).verdict_after(of_alert=is_alert_id(run.remediation_id))
    watch = TargetWatch.from_json(run.observed).ended(target, at=run.finished_at)
    return await changed_run(
        connection,
        run.id,
        "verify_at = finished_at + make_interval(secs => $2), observed = $3",
        seconds,
        watch.as_json(),
    )


async def _count_end(connection: Connection, run: Invocation) -> None:
    """Add one to how a workflow's runs ended: of those that began, changed something and ended by themselves.

    Added up rather than counted: runs are deleted in the end. The median is that of the runs that are kept.
    """
    if run.phase in (Phase.CANCELLED, Phase.HALTED):
        return
    await connection.execute(
        """
        insert into workflow_outcome as outcome (version_id, succeeded, failed, median_seconds)
        select $1, $2::boolean::integer, (not $2)::integer,
               percentile_cont(0.5) within group (order by extract(epoch from finished_at - started_at))
        from invocation
        where version_id = $1 and phase = 'Succeeded' and started_at is not null and finished_at is not null
          and not dry_run and not degraded
        on conflict (version_id) do update
        set succeeded = outcome.succeeded + excluded.succeeded, failed = outcome.failed + excluded.failed,
            median_seconds = coalesce(excluded.median_seconds, outcome.median_seconds)
        """,
        run.version_id,
        run.phase is Phase.SUCCEEDED,
    )
