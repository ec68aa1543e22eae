"""InvocationApproval objects: what becomes of one, and what its status says.

`runs.approvals` calls it to write the answer to an approval, `wiring` to find approvals that have one already. An
approval is answered once: the object stays as the record of what a person said. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.runs.run import Invocation
from formulary_operator.api.approval import ApprovalSpec
from formulary_operator.api.names import Json
from formulary_operator.kube.conditions import Said, conditions, conditions_of, find
from formulary_operator.workflows.status import Transition

UNKNOWN_RUN = "InvocationNotFound"


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
