"""WorkflowInvocation objects and rows of runs: the status that an object should have, and the object of a row.

`runs/reconciler` and the resync call it. InvocationApproval objects have theirs from here, too: `runs.approvals` writes
it, `wiring` finds approvals that have one already. An approval is answered once: the object stays as the record of what
a person said. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.console_address import incident_link, waiting_link
from formulary_catalog.domain.runs.outcome import FITNESS, Outcome
from formulary_catalog.domain.runs.report import feedback_of
from formulary_catalog.domain.runs.run import Invocation, Phase, Reason, is_invocation_id
from formulary_operator.api.invocation import ApprovalSpec
from formulary_operator.api.names import INVOCATIONS, Json
from formulary_operator.engines.config import moment
from formulary_operator.engines.plan import INVOCATION_LABEL
from formulary_operator.kube.conditions import MAX_MESSAGE, Said, conditions, conditions_of, find, status_of
from formulary_operator.workflows.status import Transition

_FIRST_GENERATION = 1
_WORRYING = (Phase.FAILED, Phase.TIMED_OUT, Phase.HALTED)
_APPROVAL_REASONS = {True: "RulesAllow", False: "RulesForbid", None: "NotDecided"}
UNKNOWN_RUN = "InvocationNotFound"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRefusal:
    """Why an object of somebody's becomes no run."""

    reason: Reason
    message: str


def desired_object(run: Invocation) -> Json:
    """The object that represents, in the cluster, a run that the server was asked for."""
    spec = {
        "workflowRef": {
            "workflowId": run.workflow_name,
            "version": run.workflow_version,
            "versionId": run.version_id,
            "namespace": run.workflow_namespace,
            "snapshot": run.document.get("spec"),
        },
        "input": dict(run.input),
        "target": run.target.as_json(),
        "remediationId": run.remediation_id,
        "searchId": str(run.search_id) if run.search_id is not None else "",
        "requester": run.requester,
        "timeoutSeconds": run.timeout_seconds,
        "idempotencyKey": run.idempotency_key,
        "dryRun": run.dry_run,
    }
    return {
        "apiVersion": INVOCATIONS.api_version,
        "kind": INVOCATIONS.kind,
        "metadata": {
            "name": run.object_name,
            "namespace": run.namespace,
            "labels": {"app.kubernetes.io/managed-by": "formulary", INVOCATION_LABEL: run.id},
        },
        "spec": {key: value for key, value in spec.items() if value not in ("", {})},
    }


def stands_for(document: Mapping[str, Any], run: Invocation) -> bool:
    """Whether an object is the one that was made for a run of the server, rather than one that has its name."""
    if run.object_uid:
        return bool(document["metadata"]["uid"] == run.object_uid)
    labels, spec = document["metadata"].get("labels") or {}, document.get("spec") or {}
    reference = spec.get("workflowRef") or {}
    stated = (labels.get(INVOCATION_LABEL), spec.get("requester"), reference.get("versionId"))
    return stated == (run.id, run.requester, run.version_id)


def is_of_the_server(document: Mapping[str, Any]) -> bool:
    """Whether an object has a name that only runs of the server have; it is never taken for a request of its own."""
    return is_invocation_id(document["metadata"]["name"])


def is_unchanged(document: Mapping[str, Any]) -> bool:
    """Whether the spec is the one that the object was created with: the API server counts its changes."""
    return bool(document["metadata"].get("generation", _FIRST_GENERATION) == _FIRST_GENERATION)


def owner_of(document: Mapping[str, Any]) -> Json:
    """The ownerReference of what belongs to an invocation."""
    return {
        "apiVersion": INVOCATIONS.api_version,
        "kind": INVOCATIONS.kind,
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def is_settled(document: Mapping[str, Any]) -> bool:
    """Whether the status says how the run ended; then nothing is left to do."""
    return status_of(document).get("phase") in [phase.value for phase in Phase if phase.is_final]


def awaits_outcome(document: Mapping[str, Any]) -> bool:
    """Whether the status names a time for an outcome that it does not have yet."""
    status = status_of(document)
    return bool(status.get("verifyAt")) and not status.get("outcome")


def ended_at(document: Mapping[str, Any]) -> datetime | None:
    """When the object says that its run ended, or that it became none."""
    complete = find(conditions_of(document), "Complete")
    return moment(complete.get("lastTransitionTime")) if complete.get("status") == "True" else None


def run_status(document: Mapping[str, Any], run: Invocation, *, now: str) -> Json:
    """The status that the object of a run should have; null where a field should be absent.

    No text is empty: older API servers take an empty text of a status for null.
    """
    rehearsed = {"manifest": dict(run.manifest)} if run.manifest else {}
    return {
        "invocationId": run.id,
        "phase": run.phase.value,
        "reason": run.reason,
        "message": run.message[:MAX_MESSAGE] or run.phase.value,
        "requester": run.shown_requester,
        "workflowVersion": run.workflow_version,
        # Its manifest is too long for an object that everybody lists; pages and REST show it.
        "content": {name: value for name, value in run.content.items() if name != "manifest"} or None,
        "outputs": {**rehearsed, **run.outputs} or None,
        "executionRef": dict(run.reference) or None,
        "startedAt": _moment(run.started_at),
        "finishedAt": _moment(run.finished_at),
        "verifyAt": _moment(run.verify_at),
        "outcome": run.outcome or None,
        "fitness": FITNESS.get(run.outcome),
        "feedback": feedback_of(run)[:MAX_MESSAGE] or None,
        "observedGeneration": document["metadata"].get("generation"),
        "revision": run.revision,
        "traceId": run.trace_id,
        "decision": dict(run.decision) or None,
        "conditions": conditions([_accepted(document), _approved(run), _complete(run)], document=document, now=now),
    }


def refused_status(document: Mapping[str, Any], refusal: RunRefusal, *, now: str) -> Json:
    """The status of an object that becomes no run. It is final: who corrects the request creates another object."""
    why = {"reason": refusal.reason, "message": refusal.message}
    return {
        "phase": Phase.FAILED.value,
        "reason": refusal.reason.value,
        "message": refusal.message[:MAX_MESSAGE],
        "observedGeneration": document["metadata"].get("generation"),
        "conditions": conditions(
            [Said(type="Accepted", met=False, **why), Said(type="Complete", met=True, **why)],
            document=document,
            now=now,
        ),
    }


def change(document: Mapping[str, Any], wanted: Mapping[str, Any], *, console_url: str = "") -> Transition | None:
    """The Event that a new status deserves: the run stands elsewhere. It links to the console, if that is known."""
    before = status_of(document)
    if (before.get("phase"), before.get("reason")) == (wanted["phase"], wanted["reason"]):
        outcome = wanted.get("outcome")
        if not outcome or before.get("outcome") == outcome:
            return None
        return Transition(
            type="Normal" if outcome in (Outcome.HELPED, Outcome.UNKNOWN) else "Warning",
            reason=outcome,
            message=f"{wanted['feedback']}{_more(wanted, console_url=console_url)}",
        )
    return Transition(
        type="Warning" if wanted["phase"] in _WORRYING else "Normal",
        reason=wanted["reason"],
        message=f"{wanted['message']}{_more(wanted, console_url=console_url)}",
    )


def _more(wanted: Mapping[str, Any], *, console_url: str) -> str:
    """Where to read more of a run."""
    if not (console_url and wanted.get("traceId")):
        return ""
    if wanted["phase"] == Phase.AWAITING_APPROVAL:
        return f" Decide at {waiting_link(console_url, wanted['invocationId'])}"
    return f" See {incident_link(console_url, wanted['traceId'])}"


def _accepted(document: Mapping[str, Any]) -> Said:
    if is_unchanged(document):
        return Said(type="Accepted", met=True, reason="Recorded", message="the request is valid and recorded")
    return Said(
        type="Accepted",
        met=True,
        reason="ChangeIgnored",
        message="the spec was changed after the request was recorded; that changes nothing. Delete the object to "
        "cancel the run, and create another for another run",
    )


def _approved(run: Invocation) -> Said:
    met: bool | None = True
    if run.reason in (Reason.DENIED, Reason.REJECTED) or (run.phase is Phase.HALTED and run.started_at is None):
        met = False
    elif run.phase in (Phase.PENDING, Phase.AWAITING_APPROVAL) or run.started_at is None:
        met = None
    message = str(run.decision.get("message") or run.message or run.phase)
    return Said(type="Approved", met=met, reason=_APPROVAL_REASONS[met], message=message)


def _complete(run: Invocation) -> Said:
    return Said(
        type="Complete",
        met=run.phase.is_final,
        reason=run.reason if run.phase.is_final else run.phase.value,
        message=run.message or run.phase.value,
    )


def _moment(at: datetime | None) -> str | None:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Whether an approval counts, and why."""

    accepted: bool
    reason: str
    message: str
    invocation_id: str = ""
    approver: str = ""


def unproven(spec: ApprovalSpec, *, approver: str, run: Invocation) -> Answered | None:
    """Why an approval does not count whose creator no webhook recorded; None if `approver` is known.

    A rejection counts in either case: it can only stop something.
    """
    if approver or spec.decision == "Reject":
        return None
    return Answered(
        accepted=False,
        reason="Unproven",
        message=f"no admission webhook recorded who created it, so it does not count; use `formulary approve {run.id}`"
        ", the console or REST, or create another once the webhook answers (webhook.enabled of the chart)",
        invocation_id=run.id,
    )


def approval_status(document: Mapping[str, Any], answered: Answered, *, now: str) -> Json:
    """The status that the object should have; null where a field should be absent."""
    said = Said(type="Accepted", met=answered.accepted, reason=answered.reason, message=answered.message)
    return {
        "invocationId": answered.invocation_id or None,
        "accepted": answered.accepted,
        "approver": answered.approver or None,
        "message": answered.message,
        "observedGeneration": document["metadata"].get("generation"),
        "conditions": conditions([said], document=document, now=now),
    }


def is_answered(document: Mapping[str, Any]) -> bool:
    """Whether it is said of this generation what became of it, for good."""
    accepted = find(conditions_of(document), "Accepted")
    current = accepted.get("observedGeneration") == document["metadata"].get("generation")
    return current and accepted.get("reason") != UNKNOWN_RUN


def counted(document: Mapping[str, Any]) -> bool:
    """Whether the approval was accepted when it was looked at last."""
    return find(conditions_of(document), "Accepted").get("status") == "True"


def approval_change(document: Mapping[str, Any], answered: Answered) -> Transition | None:
    """The Event that an answer deserves: it is another one than before."""
    if find(conditions_of(document), "Accepted").get("reason") == answered.reason:
        return None
    return Transition(
        type="Normal" if answered.accepted else "Warning", reason=answered.reason, message=answered.message
    )
