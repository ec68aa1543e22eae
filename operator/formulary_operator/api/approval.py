"""InvocationApproval: a person's yes or no to a run that awaits it."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from formulary_catalog.domain.runs.run import ID_PREFIX
from formulary_catalog.domain.workflows.manifest import Model, Text
from formulary_operator.api.status import Conditions, Generation

InvocationId = Annotated[str, StringConstraints(pattern=f"^{ID_PREFIX}[0-9a-f]{{20}}$")]


class ApprovalSpec(Model):
    """The answer. It cannot be changed; who gave it is told by the API server, not by the object."""

    invocation_id: InvocationId = Field(
        description="Id of the run, `status.invocationId` of its WorkflowInvocation in this namespace."
    )
    decision: Literal["Approve", "Reject"] = Field(
        description="Approve lets the run start; Reject ends it. A rejection wins over any approval."
    )
    digest: Annotated[str, StringConstraints(pattern="^(sha256:[0-9a-f]{64})?$")] = Field(
        default="",
        description="`status.content.digest` of the run: an approval with it counts for that content alone. Without it "
        "it counts for the content that is shown when it is recorded.",
    )
    reason: Text = Field(default="", description="Why; kept in the trace.")


class ApprovalStatus(Model):
    """What became of the answer. Written by the operator alone."""

    invocation_id: Text | None = Field(default=None, description="Id of the run that it was counted for.")
    accepted: bool | None = Field(default=None, description="Whether it counted.")
    approver: Text | None = Field(
        default=None, description="Who created the object, as the API server told the admission webhook."
    )
    message: Text | None = Field(default=None, description="What it did, or why it did not count.")
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that all this is said of."
    )
    conditions: Conditions = Field(
        default=[], description="Accepted: it counted for its run. With a reason and a message."
    )
