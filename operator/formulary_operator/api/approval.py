"""InvocationApproval: a person's yes or no to a run that awaits it."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from formulary_catalog.domain.patterns import DIGEST_OR_NONE, RUN_ID
from formulary_catalog.domain.workflows.manifest import Model, Text
from formulary_operator.api.status import Conditions, Generation

InvocationId = Annotated[str, StringConstraints(pattern=RUN_ID)]


class ApprovalSpec(Model):
    """The decision. Immutable. The API server reports to the admission webhook who made it."""

    invocation_id: InvocationId = Field(
        description="Id of the run, `status.invocationId` of its WorkflowInvocation in this namespace."
    )
    decision: Literal["Approve", "Reject"] = Field(
        description="Approve lets the run start, Reject ends it. A rejection overrides any approval."
    )
    digest: Annotated[str, StringConstraints(pattern=DIGEST_OR_NONE)] = Field(
        default="",
        description="`status.content.digest` of the run. An approval with a digest applies to that content only, one "
        "without applies to the content at the time of its recording.",
    )
    reason: Text = Field(default="", description="Reason, kept in the audit trail.")


class ApprovalStatus(Model):
    """Effect of the decision. Written by the operator only."""

    invocation_id: Text | None = Field(default=None, description="Id of the run.")
    accepted: bool | None = Field(default=None, description="Whether the decision took effect.")
    approver: Text | None = Field(
        default=None,
        description="User who created the object, as the API server reported to the admission webhook. An approval "
        "whose creator is unknown has no effect.",
    )
    message: Text | None = Field(default=None, description="Effect of the decision, or the reason why it had none.")
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this status describes."
    )
    conditions: Conditions = Field(default=[], description="Accepted: the decision took effect.")
