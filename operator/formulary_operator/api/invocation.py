"""WorkflowInvocation: the durable record of one run of a workflow."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from formulary_catalog.domain.runs.run import ID_PREFIX, MAX_TIMEOUT_SECONDS, Phase
from formulary_catalog.domain.workflows.manifest import FilledText, LabelValue, Model, Text
from formulary_operator.api.status import Conditions, Generation

Name = Annotated[Text, StringConstraints(max_length=253)]


class WorkflowReference(Model):
    """The workflow that is run, in its content at the time when the run was asked for."""

    workflow_id: LabelValue = Field(
        description="The workflow as `name`, `namespace/name`, `name@version` or `wf_ver_…`; a name alone is sought in "
        "this namespace, then in the shared one."
    )
    version: Name = Field(default="", description="Its version; absent for the newest one that is served.")
    version_id: Name = Field(
        default="", description="Id that stands for its content, `wf_ver_` and 20 hex digits. Set by the operator."
    )
    namespace: Name = Field(default="", description="Namespace of the workflow, where that is not this one.")
    snapshot: dict[str, Any] | None = Field(
        default=None,
        description="Spec of the workflow as it is run: later edits change nothing. Set by the operator; believed only "
        "if `versionId` stands for it.",
    )


class InvocationTarget(Model):
    """The object that is to be healed."""

    api_version: Name = Field(default="", description="Its API version, such as apps/v1.")
    kind: Name = Field(default="", description="Its kind, such as Deployment.")
    name: Name = Field(default="", description="Its name.")
    namespace: Name = Field(default="", description="Its namespace.")


class InvocationSpec(Model):
    """What is to be run, on what, and for whom. It cannot be changed: delete the object to cancel, create another."""

    workflow_ref: WorkflowReference
    input: dict[str, Any] | None = Field(
        default=None,
        description="Values of the workflow's parameters, by their names. Whoever may read this object reads them: ask "
        "the server for runs with sensitive ones, it keeps them apart.",
    )
    target: InvocationTarget | None = Field(default=None, description="The object that is to be healed.")
    remediation_id: Text = Field(
        default="", description="Remediation id of the incident that the run belongs to; its constraints hold."
    )
    search_id: Name = Field(
        default="",
        description="Id of the search that found the workflow; one of the requester's own for this incident.",
    )
    requester: Text = Field(
        default="",
        description="User who asked for the run. Set by the operator; who creates the object may only name themselves.",
    )
    timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        le=int(MAX_TIMEOUT_SECONDS),
        description="Seconds after which the run is ended; if absent, twice as many as the workflow says it takes, at "
        "least 30.",
    )
    idempotency_key: Name = Field(
        default="",
        description="Key that a caller gave the server: its repeated request is the same run. Means nothing in objects "
        "that somebody creates; each of them is a run of its own.",
    )
    dry_run: bool = Field(
        default=False, description="Make the manifest and have the API server check it, but run nothing."
    )


class ExecutionReference(Model):
    """The object that does the work."""

    api_version: FilledText = Field(description="Its API version, such as batch/v1.")
    kind: FilledText = Field(description="Its kind: Job, PipelineRun or Workflow.")
    name: FilledText = Field(description="Its name, in the namespace of the invocation.")
    uid: Text = Field(default="", description="Its uid, once it is there.")


class ContentStep(Model):
    """One step of what would run."""

    name: Text = Field(description="Its name.")
    command: Text = Field(default="", description="What it does.")


class InvocationContent(Model):
    """What a run would run, for whoever approves it. Made by the operator from what it recorded, not from the spec."""

    digest: Text | None = Field(
        default=None, description="sha256 of the manifest; an InvocationApproval that names it counts for it alone."
    )
    version_id: Text | None = Field(default=None, description="Id that stands for the workflow's content.")
    kind: Text | None = Field(default=None, description="What would be created: Job, PipelineRun or Workflow.")
    images: list[Text] | None = Field(default=None, description="Images, or the bundle that brings them.")
    service_account: Text | None = Field(default=None, description="ServiceAccount as which it would run.")
    secrets: list[Text] | None = Field(default=None, description="Secrets that it would read.")
    config_maps: list[Text] | None = Field(default=None, description="ConfigMaps that it would read.")
    parameters: dict[str, Any] | None = Field(default=None, description="Its parameters; sensitive ones are hidden.")
    steps: list[ContentStep] | None = Field(default=None, description="Its steps.")
    problem: Text | None = Field(default=None, description="Why it cannot be made; then it would not run.")


class InvocationStatus(Model):
    """How the run stands. Written by the operator alone."""

    invocation_id: Text | None = Field(
        default=None, description=f"Id by which the run is asked for everywhere, {ID_PREFIX} and 20 hex digits."
    )
    phase: Phase | None = Field(default=None, description="Where the run stands.")
    reason: Text | None = Field(default=None, description="Why, in one word for programs, such as Denied.")
    message: Annotated[str, StringConstraints(max_length=32768)] | None = Field(
        default=None, description="Why, and what to do about it."
    )
    requester: Text | None = Field(
        default=None, description="Who asked for the run, as it was proven; `unproven` where nobody proved it."
    )
    content: InvocationContent | None = Field(default=None, description="What would run, or was run.")
    outputs: dict[str, Any] | None = Field(default=None, description="What the run gave back.")
    execution_ref: ExecutionReference | None = Field(default=None, description="The object that does the work.")
    started_at: datetime | None = Field(default=None, description="When it was started.")
    finished_at: datetime | None = Field(default=None, description="When it ended.")
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation of the object that all this is said of."
    )
    revision: Generation | None = Field(default=None, description="Grows with every change of the run.")
    trace_id: Text | None = Field(
        default=None, description="Trace that tells all that happened; `formulary trace show` prints it."
    )
    decision: dict[str, Any] | None = Field(
        default=None, description="What governance decided: the risks, the rules that matched, and what is missing."
    )
    conditions: Conditions = Field(
        default=[],
        description="Accepted: the request is valid and recorded. Approved: the rules let it run. Complete: it has "
        "ended. With reasons and messages that a person can act on.",
    )
