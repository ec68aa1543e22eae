"""What an engine receives about a run, and what it reports of it.

`runs.plan` makes the `RunPlan`, `runs.execution` gives it to an `Engine` and stores its `Observation`. An engine needs
to know nothing else of a run. Pure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from formulary_catalog.domain.runs.run import Phase, Reason, RunTarget
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_operator.api.names import Json, Resource

INVOCATION_LABEL = "formulary.dev/invocation"
WORKFLOW_LABEL = "formulary.dev/workflow"
VERSION_ANNOTATION = "formulary.dev/version-id"
NONCE_ANNOTATION = "formulary.dev/nonce"
DEFAULT_ACCOUNT = "default"
"""Named by engines whose pods hold a token or Secrets of their account: it must be released like any other."""
TTL_SECONDS = 24 * 3600
"""How long a finished run can be looked at. Longer than any timeout, so that a run that was begun is always found."""

_MAX_LABEL = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run of one workflow version, decided and checked.

    `values` are complete and hold nothing sensitive. The values of the parameters in `sensitive` are in the Secret
    `secret_name`, under the names of the parameters. `owner` is an ownerReference, None where there is no object that
    could own the run. `image_default` runs the steps of workflows that name no image. `user_default` is the user and
    group of workflows that name none, 0 where the cluster assigns one. `argo_strict`: Argo takes the ServiceAccount and
    the security context from the WorkflowTemplate alone. Nobody knows `nonce` before it is in what was made for the
    run; it is empty where nothing is made.
    """

    invocation_id: str
    namespace: str
    workflow: RemediationWorkflow
    version_id: str
    values: Mapping[str, Any] = field(repr=False)
    sensitive: frozenset[str] = frozenset()
    target: RunTarget
    remediation_id: str = ""
    timeout_seconds: float
    owner: Mapping[str, Any] | None = None
    image_default: str = ""
    user_default: int = 65532
    argo_strict: bool = False
    nonce: str = ""

    @property
    def deadline_seconds(self) -> int:
        """The timeout in whole seconds, as Kubernetes counts."""
        return max(1, math.ceil(self.timeout_seconds))

    @property
    def secret_name(self) -> str:
        """A name that nobody can have taken before."""
        return "-".join(part for part in (self.invocation_id, self.nonce) if part)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of whatever belongs to the run; a valid label of a long name is its beginning."""
        return {
            "app.kubernetes.io/managed-by": "formulary",
            INVOCATION_LABEL: self.invocation_id,
            WORKFLOW_LABEL: self.workflow.metadata.name[:_MAX_LABEL].rstrip("-."),
        }

    @property
    def metadata(self) -> Json:
        """Metadata of the object that runs it. Its name is the invocation's, so that there can be no second one."""
        owners = {"ownerReferences": [dict(self.owner)]} if self.owner is not None else {}
        return {
            "name": self.invocation_id,
            "namespace": self.namespace,
            "labels": self.labels,
            "annotations": {
                VERSION_ANNOTATION: self.version_id,
                **({NONCE_ANNOTATION: self.nonce} if self.nonce else {}),
            },
            **owners,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How a run stands: Running, Succeeded, Failed or TimedOut. Times are in UTC, None where they are not known."""

    phase: Phase
    reason: Reason
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Engine(Protocol):
    """A system that runs workflows, by what has to be written for it and how what it writes is read. No I/O."""

    @property
    def name(self) -> str:
        """Its name in `spec.execution.engine`."""

    @property
    def resource(self) -> Resource:
        """The kind of object that is one run."""

    def manifest(self, plan: RunPlan) -> Json:
        """The object that runs the plan.

        Raises:
            NotInvocable: the workflow, as it is written, cannot be run by this engine.
            InvalidInput: a value cannot be handed to this engine unchanged.
        """

    def observe(self, document: Mapping[str, Any]) -> Observation:
        """How the run stands that this object is. Whatever the object holds, it is read as far as it makes sense."""

    def outputs(self, document: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Json:
        """What the run has handed back, at most 16 KiB. `pods` are those with the label of the invocation."""
