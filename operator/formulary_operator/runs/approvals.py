"""One InvocationApproval: from the cluster's object to the evidence of a run and back to the object's status.

The work queue calls it with a name, `wiring` builds it. An approval counts only if the webhook recorded who created the
object, nothing was changed after creation and, where a content is named, only for that content. Then the run is looked
at again.
"""

from datetime import datetime

from pydantic import ValidationError

from formulary_catalog.domain.runs.run import UNPROVEN_USER, Invocation, Source
from formulary_catalog.domain.workflows.problems import problems
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_operator.api.invocation import ApprovalSpec
from formulary_operator.api.names import APPROVALS, Json
from formulary_operator.kube.client import KubeClient
from formulary_operator.reporting import Reporter, timestamp
from formulary_operator.runs.poller import RunPoller
from formulary_operator.runs.status import (
    UNKNOWN_RUN,
    Answered,
    approval_change,
    approval_status,
    counted,
    is_answered,
    is_unchanged,
    unproven,
)
from formulary_operator.runs.submission import NotYet, age_seconds

_PATIENCE_SECONDS = 60.0
_CLOCK_SECONDS = 5.0
"""By how much the clocks of API server and database may differ; times of objects are whole seconds."""


class ApprovalReconciler:
    """Keeps the approvals of runs in step with the objects, and has each run looked at that may go on now."""

    def __init__(
        self,
        *,
        client: KubeClient,
        approvals: ApprovalStore,
        runs: RunWriter,
        admissions: AdmissionRecords,
        reporter: Reporter,
        poller: RunPoller,
    ) -> None:
        self._client = client
        self._approvals = approvals
        self._runs = runs
        self._admissions = admissions
        self._reporter = reporter
        self._poller = poller

    async def reconcile(self, *, namespace: str, name: str) -> str:
        """Bring one object in step. What was found: the reason of its condition Accepted, or `Gone`.

        Raises:
            NotYet: the run that it is about is not known yet; try again later.
            Unavailable: the database or the API server does not answer; try again later.
        """
        document = await self._client.get(APPROVALS.path(namespace=namespace, name=name))
        if document is None or "deletionTimestamp" in document["metadata"]:
            await self._approvals.withdraw(namespace=namespace, name=name)
            return "Gone"
        await self._approvals.withdraw(namespace=namespace, name=name, unless_owned_by=document["metadata"]["uid"])
        if is_answered(document):
            return "Answered"
        answered = await self._answer(document)
        wanted = approval_status(document, answered, now=timestamp())
        await self._reporter.report(document, wanted, change=approval_change(document, answered))
        if answered.reason == UNKNOWN_RUN and age_seconds(document) < _PATIENCE_SECONDS:
            raise NotYet(f"run {answered.invocation_id} is not known yet")
        return answered.reason

    async def _answer(self, document: Json) -> Answered:
        try:
            spec = ApprovalSpec.model_validate(document.get("spec"))
        except ValidationError as error:
            _, message = problems(error, model=ApprovalSpec)
            return Answered(accepted=False, reason="Invalid", message=f"spec.{message}; create another")
        if not is_unchanged(document):
            return _changed_later(document, spec)
        run = await self._runs.find(spec.invocation_id)
        metadata = document["metadata"]
        if run is None or run.namespace != metadata["namespace"]:
            return Answered(
                accepted=False,
                reason=UNKNOWN_RUN,
                message=f"namespace {metadata['namespace']} has no run {spec.invocation_id}; `kubectl get wfi` shows "
                "the ids of those that there are",
                invocation_id=spec.invocation_id,
            )
        if _precedes(document, run=run):
            return Answered(
                accepted=False,
                reason="TooEarly",
                message="it was created before the run was asked for, so that nobody can have judged what it is about; "
                "look at the run, then create another",
                invocation_id=run.id,
            )
        if (unfit := _unfit(spec, run=run)) is not None:
            return unfit
        return await self._keep(document, spec=spec, run=run)

    async def _keep(self, document: Json, *, spec: ApprovalSpec, run: Invocation) -> Answered:
        metadata = document["metadata"]
        if run.phase.is_final and not await self._approvals.is_kept(metadata["uid"]):
            return Answered(
                accepted=False,
                reason="TooLate",
                message=f"the run was over already: {run.phase}, {run.reason}",
                invocation_id=run.id,
            )
        proven = await self._admissions.username(metadata["uid"])
        if (refusal := unproven(spec, approver=proven, run=run)) is not None:
            return refusal
        approver = proven or UNPROVEN_USER
        approval = NewApproval(
            invocation_id=run.id,
            namespace=metadata["namespace"],
            decision=spec.decision,
            approver=approver,
            reason=spec.reason,
            name=metadata["name"],
            uid=metadata["uid"],
            digest=spec.digest,
        )
        await self._approvals.add(approval)
        self._poller.look_at(run)
        done = "approved" if spec.decision == "Approve" else "rejected"
        return Answered(
            accepted=True,
            reason=done.capitalize(),
            message=f"{done} by {approver}",
            invocation_id=run.id,
            approver=approver,
        )


def _precedes(document: Json, *, run: Invocation) -> bool:
    """Whether the approval is older than a run of the server, whose id follows from a caller and a key and is known
    before there is a run. The id of a run that somebody created follows from the uid of its object."""
    created = datetime.fromisoformat(document["metadata"]["creationTimestamp"])
    return run.source is Source.SERVER and (run.created_at - created).total_seconds() > _CLOCK_SECONDS


def _unfit(spec: ApprovalSpec, *, run: Invocation) -> Answered | None:
    """Why an approval that names a content is not one of this run as it is; None if it is, or names none."""
    if not spec.digest or spec.decision != "Approve" or spec.digest == run.content_digest:
        return None
    if not run.content:
        return Answered(
            accepted=False,
            reason=UNKNOWN_RUN,
            message="what the run would run is not known yet; looked at again soon",
            invocation_id=run.id,
        )
    return Answered(
        accepted=False,
        reason="OtherContent",
        message=f"the content of the run is {run.content_digest or 'none'}, not {spec.digest}; look at status.content "
        "of its WorkflowInvocation, then create another approval",
        invocation_id=run.id,
    )


def _changed_later(document: Json, spec: ApprovalSpec) -> Answered:
    """The creator is known, who changes the spec is not: only what was created counts."""
    if counted(document):
        message = "the spec was changed after it was accepted; what was accepted then counts"
        approver = str((document.get("status") or {}).get("approver") or "")
        return Answered(
            accepted=True,
            reason="ChangeIgnored",
            message=message,
            invocation_id=spec.invocation_id,
            approver=approver,
        )
    message = "the spec was changed before it was accepted; delete this object and create another"
    return Answered(accepted=False, reason="Changed", message=message, invocation_id=spec.invocation_id)
