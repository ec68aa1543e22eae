"""A stored run as its caller reads it. Inputs, and with them all that is sensitive, stay out.

`services.runs.service` and `services.runs.reading` make their answers with it. Phases of the cluster become the states
that clients of MCP and REST know. Pure.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from formulary_catalog.domain.answers.catalog import InvocationAnswer
from formulary_catalog.domain.console_address import waiting_address
from formulary_catalog.domain.runs.outcome import FITNESS
from formulary_catalog.domain.runs.run import Invocation, Phase, Reason


def invocation_answer(
    run: Invocation, *, notes: Iterable[str] = (), decided: bool = False, console_url: str = ""
) -> InvocationAnswer:
    """Where a run stands, with what to do next; `notes` come first. `decided`: a person has just decided on it."""
    waits = run.phase is Phase.AWAITING_APPROVAL and not decided
    return InvocationAnswer(
        invocation_id=run.id,
        state=run.phase.state,
        phase=run.phase,
        reason=run.reason,
        message=run.message,
        error=run.message if run.phase.is_final and run.phase is not Phase.SUCCEEDED else "",
        workflow_id=f"{run.workflow_namespace}/{run.workflow_name}",
        version=run.workflow_version,
        version_id=run.version_id,
        namespace=run.namespace,
        dry_run=not run.runs_for_real,
        output=dict(run.outputs),
        manifest=dict(run.manifest),
        requester=run.shown_requester,
        content=_content(run) if run.phase in (Phase.PENDING, Phase.AWAITING_APPROVAL) else {},
        approval_url=f"{console_url}{waiting_address(run.id)}" if waits else "",
        trace_id=run.trace_id,
        revision=run.revision,
        created_at=_time(run.created_at),
        started_at=_time(run.started_at),
        finished_at=_time(run.finished_at),
        duration_seconds=run.duration_seconds if run.runs_for_real else None,
        outcome=run.outcome,
        fitness=FITNESS.get(run.outcome),
        feedback=feedback_of(run),
        notes=[*notes, *_advice(run, decided=decided)],
    )


def _content(run: Invocation) -> dict[str, Any]:
    """What would run, without its manifest: too long for each answer, and not what an agent judges."""
    return {name: value for name, value in run.content.items() if name != "manifest"}


def taken_for_running(answer: InvocationAnswer) -> InvocationAnswer:
    """The same in the words of callers that know no other state of a run that is under way."""
    under_way = answer.phase == Phase.PENDING
    return answer.model_copy(update={"state": Phase.RUNNING.state}) if under_way else answer


def _advice(run: Invocation, *, decided: bool) -> Iterable[str]:
    if run.phase is Phase.AWAITING_APPROVAL and not decided:
        yield (
            f"nothing runs until a person approves it, with `formulary approve {run.id} --reason …`, or where the "
            f"admission webhook is on with an InvocationApproval in namespace {run.namespace}: kubectl create -f - <<< "
            f'\'{{"apiVersion": "formulary.dev/v1alpha1", "kind": "InvocationApproval", "metadata": {{"name": '
            f'"{run.id}", "namespace": "{run.namespace}"}}, "spec": {{"invocationId": "{run.id}", "decision": '
            f'"Approve", "reason": "…"}}}}\''
        )
    if run.degraded and not run.dry_run:
        yield f"nothing is changed: {run.decision.get('message', 'a rule turned it into a dry run')}"
    elif run.reason == Reason.DRY_RUN:
        yield "nothing was changed; manifest is what a real run would create"
        if (decided := run.decision.get("message", run.message)) != run.message:
            yield f"the rules: {decided}"


def feedback_of(run: Invocation) -> str:
    """What the verification saw, or when its outcome is decided; empty for what changed nothing."""
    if run.awaits_outcome:
        return f"whether it helped is decided at {_time(run.verify_at)}"
    return run.feedback


def _time(moment: datetime | None) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment is not None else ""
