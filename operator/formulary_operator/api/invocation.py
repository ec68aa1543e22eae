"""WorkflowInvocation: the durable record of one run of a workflow. InvocationApproval: a person's yes or no to it."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from formulary_catalog.domain.patterns import DIGEST_OR_NONE, RUN_ID
from formulary_catalog.domain.runs.outcome import Outcome
from formulary_catalog.domain.runs.run import ID_PREFIX, MAX_TIMEOUT_SECONDS, Phase
from formulary_catalog.domain.workflows.manifest import FilledText, LabelValue, Model, Text
from formulary_operator.api.status import Conditions, Generation

Name = Annotated[Text, StringConstraints(max_length=253)]
InvocationId = Annotated[str, StringConstraints(pattern=RUN_ID)]


class WorkflowReference(Model):
    """The workflow to run, with its content at the time of the request."""

    workflow_id: LabelValue = Field(
        description="The workflow as `name`, `namespace/name`, `name@version` or `wf_ver_…`. A name alone is looked up"
        " in this namespace, then in the shared one."
    )
    version: Name = Field(default="", description="Its version. Defaults to the newest one that is served.")
    version_id: Name = Field(
        default="",
        description="Id of its content: `wf_ver_` and 20 hex digits. Set by the operator for runs requested from the "
        "server.",
    )
    namespace: Name = Field(default="", description="Namespace of the workflow, if it is not this one.")
    snapshot: dict[str, Any] | None = Field(
        default=None,
        description="Spec of the workflow for this run. Later edits of the workflow change nothing. Set by the "
        "operator, and accepted only if `versionId` matches it.",
    )


class InvocationTarget(Model):
    """Resource that the run acts on."""

    api_version: Name = Field(default="", description="Its API version, such as apps/v1.")
    kind: Name = Field(default="", description="Its kind, such as Deployment.")
    name: Name = Field(default="", description="Its name.")
    namespace: Name = Field(default="", description="Its namespace.")


class InvocationSpec(Model):
    """The request: workflow, input, target and requester. Immutable: to cancel, delete the object; for another run,
    create another one.
    """

    workflow_ref: WorkflowReference
    input: dict[str, Any] | None = Field(
        default=None,
        description="Values of the workflow's parameters, by name. Everybody who may read this object can read them. "
        "For sensitive values, request the run from the server, which stores them apart.",
    )
    target: InvocationTarget | None = Field(
        default=None,
        description="Resource that the run acts on. Defaults to that of the incident or of the search, else to this "
        "namespace. Its labels constrain the run.",
    )
    remediation_id: Text = Field(
        default="", description="Remediation id of the incident. Its constraints apply to the run."
    )
    search_id: Name = Field(
        default="",
        description="Id of the search that found the workflow. It must be a search by the same requester for this "
        "incident or target.",
    )
    requester: Text = Field(
        default="",
        description="User who requested the run. Set by the operator for runs requested from the server. Users who "
        "create the object may name only themselves.",
    )
    timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        le=int(MAX_TIMEOUT_SECONDS),
        description="Seconds after which the run is stopped. Defaults to twice the estimated duration of the workflow,"
        " at least 30.",
    )
    idempotency_key: Name = Field(
        default="",
        description="Idempotency key that a caller gave the server: a repeated request is the same run. Ignored in "
        "objects that people create; each of them is a separate run.",
    )
    dry_run: bool = Field(
        default=False, description="Renders the manifest and validates it at the API server, without running it."
    )


class ExecutionReference(Model):
    """Object that runs the workflow."""

    api_version: FilledText = Field(description="Its API version, such as batch/v1.")
    kind: FilledText = Field(description="Its kind: Job, PipelineRun or Workflow.")
    name: FilledText = Field(description="Its name, in the namespace of the invocation.")
    uid: Text = Field(default="", description="Its uid, once it exists.")


class ContentStep(Model):
    """One step of the run."""

    name: Text = Field(description="Its name.")
    command: Text = Field(default="", description="Shell command.")


class InvocationContent(Model):
    """What a run would run, for its approver. Made by the operator from what it recorded, not from the spec."""

    digest: Text | None = Field(
        default=None,
        description="sha256 of the manifest. An InvocationApproval that names it applies to this content only.",
    )
    version_id: Text | None = Field(default=None, description="Id of the workflow's content.")
    kind: Text | None = Field(
        default=None, description="Kind of the object that runs it: Job, PipelineRun or Workflow."
    )
    images: list[Text] | None = Field(default=None, description="Images, or the bundle that contains them.")
    service_account: Text | None = Field(
        default=None, description="ServiceAccount of the run. Absent if the run has none, and so no token."
    )
    secrets: list[Text] | None = Field(default=None, description="Secrets that the run reads.")
    config_maps: list[Text] | None = Field(default=None, description="ConfigMaps that the run reads.")
    parameters: dict[str, Any] | None = Field(default=None, description="Parameters. Sensitive values are hidden.")
    steps: list[ContentStep] | None = Field(default=None, description="Steps of the workflow.")
    problem: Text | None = Field(
        default=None, description="Reason why the manifest cannot be rendered. The run cannot start then."
    )


class InvocationStatus(Model):
    """State of the run. Written by the operator only. Callers of Formulary that may get aianalyses in its namespace
    read phase and outcome in lists of incidents and traces, without a right on this kind.
    """

    invocation_id: Text | None = Field(default=None, description=f"Id of the run: {ID_PREFIX} and 20 hex digits.")
    phase: Phase | None = Field(default=None, description="Phase of the run.")
    reason: Text | None = Field(default=None, description="Reason in one word, such as Denied.")
    message: Annotated[str, StringConstraints(max_length=32768)] | None = Field(
        default=None, description="Explanation, and the next step."
    )
    requester: Text | None = Field(
        default=None,
        description="User who requested the run, as authenticated; `unproven` if the admission webhook did not see the"
        " request.",
    )
    workflow_version: Text | None = Field(
        default=None,
        description="Version of the workflow that was recorded for the run, also where the request names none.",
    )
    content: InvocationContent | None = Field(
        default=None, description="Content of the run, before and after its start."
    )
    outputs: dict[str, Any] | None = Field(default=None, description="Outputs of the run.")
    execution_ref: ExecutionReference | None = Field(default=None, description="Object that runs the workflow.")
    started_at: datetime | None = Field(default=None, description="Start time.")
    finished_at: datetime | None = Field(default=None, description="End time.")
    verify_at: datetime | None = Field(
        default=None, description="Time at which the outcome is decided; absent for a run that changed nothing."
    )
    outcome: Outcome | None = Field(default=None, description="Whether the run helped.")
    fitness: int | None = Field(
        default=None, ge=0, le=1, description="1 if it helped, 0 if it did not help or relapsed; absent while unknown."
    )
    feedback: Annotated[str, StringConstraints(max_length=32768)] | None = Field(
        default=None, description="Observation that the outcome rests on."
    )
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that this status describes."
    )
    revision: Generation | None = Field(default=None, description="Revision of the run. Increases with every change.")
    trace_id: Text | None = Field(
        default=None, description="Trace of the run in the audit trail. `formulary trace show` prints it."
    )
    decision: dict[str, Any] | None = Field(
        default=None, description="Governance decision: risks, matching rules, and what is missing."
    )
    conditions: Conditions = Field(
        default=[],
        description="Accepted: the request is valid and recorded. Approved: the rules allow the run. Complete: the run"
        " has ended. Reasons and messages say what to do.",
    )


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
