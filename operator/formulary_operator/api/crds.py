"""The CustomResourceDefinitions of the kinds that the operator watches, made from the models."""

from collections.abc import Callable, Mapping
from typing import Any

import yaml

from formulary_catalog.domain.governance.contract import ContractSpec
from formulary_catalog.domain.workflows.manifest import WorkflowSpec
from formulary_operator.api.analysis import AnalysisSpec
from formulary_operator.api.approval import ApprovalSpec, ApprovalStatus
from formulary_operator.api.contract import ContractStatus
from formulary_operator.api.definition import column, definition, ready
from formulary_operator.api.invocation import InvocationSpec, InvocationStatus
from formulary_operator.api.names import ANALYSES, APPROVALS, CONTRACTS, INVOCATIONS, WORKFLOWS
from formulary_operator.api.schema import PRESERVE, structural_schema
from formulary_operator.api.status import WorkflowStatus

_HEADER = "# Generated from the models by `make generate`; change those.\n"


def workflow_crd() -> dict[str, Any]:
    """RemediationWorkflow. What neither upstream nor we know is pruned, as it is upstream."""
    return definition(
        WORKFLOWS,
        short_name="rw",
        description="A remediation that a platform team has approved, with the conditions for its use. Agents search "
        "for workflows that fix an incident and receive only those that the incident's labels allow.",
        spec=structural_schema(WorkflowSpec),
        status=structural_schema(WorkflowStatus),
        columns=[
            column("Action", ".spec.actionType", "What kind of action it takes."),
            column("Version", ".spec.version", "Version of the content."),
            column("Status", ".status.catalogStatus", "What the catalog has made of it."),
            column("Ready", ready("status"), "Whether the newest content is served."),
            column("Reason", ready("reason"), "Why it is ready or not.", wide=True),
        ],
    )


def analysis_crd() -> dict[str, Any]:
    """AIAnalysis. It is somebody else's: every field survives, also those of releases to come."""
    return definition(
        ANALYSES,
        short_name="aia",
        description="The analysis of one incident. Formulary reads the constraints of the incident from it and never "
        "writes it.",
        spec=structural_schema(AnalysisSpec, keep_unknown=True),
        status={"description": "State of the analysis, set by its controller.", "type": "object", PRESERVE: True},
        columns=[
            column("Phase", ".status.phase", "How far the analysis is."),
            column("Reason", ".status.reason", "Why it ended as it did.", wide=True),
        ],
    )


def invocation_crd() -> dict[str, Any]:
    """WorkflowInvocation."""
    return definition(
        INVOCATIONS,
        short_name="wfi",
        description="One run of a workflow: the request, the decision, the outcome. Deleting it cancels the run. The "
        "audit trail keeps what happened.",
        spec=structural_schema(InvocationSpec),
        status=structural_schema(InvocationStatus),
        columns=[
            column("Workflow", ".spec.workflowRef.workflowId", "What is run."),
            column("Version", ".spec.workflowRef.version", "Version of the content."),
            column("Phase", ".status.phase", "Phase of the run."),
            column("Reason", ".status.reason", "Why it stands there.", wide=True),
            column("Target", ".spec.target.name", "What is to be healed.", wide=True),
            column("Requester", ".status.requester", "User who requested it, as authenticated.", wide=True),
            column("Images", ".status.content.images", "What would run.", wide=True),
            column("Account", ".status.content.serviceAccount", "As which ServiceAccount.", wide=True),
            column("Digest", ".status.content.digest", "What an approval may name.", wide=True),
            column("Started", ".status.startedAt", "Since when it has run.", kind="date"),
        ],
    )


def contract_crd() -> dict[str, Any]:
    """GovernanceContract. Unknown fields are kept, and then refused: a rule without its misspelt limit says more."""
    return definition(
        CONTRACTS,
        short_name="gcon",
        description="Rules on which runs are allowed where, when and for whom. In the shared catalog namespace they "
        "apply to every run, elsewhere to runs in their own namespace.",
        spec=structural_schema(ContractSpec, keep_unknown=True, defaults=False),
        status=structural_schema(ContractStatus),
        columns=[
            column("Scope", ".spec.scope.name", "What it is about."),
            column("Ready", ready("status"), "Whether the newest rules are in force."),
            column("Reason", ready("reason"), "Why they are or not.", wide=True),
        ],
    )


def approval_crd() -> dict[str, Any]:
    """InvocationApproval."""
    return definition(
        APPROVALS,
        short_name="iappr",
        description="A person's approval or rejection of a run. Everybody who may create this kind may approve. The "
        "API server reports who did.",
        spec=structural_schema(ApprovalSpec),
        status=structural_schema(ApprovalStatus),
        columns=[
            column("Invocation", ".spec.invocationId", "The run that is meant."),
            column("Decision", ".spec.decision", "The answer."),
            column("Accepted", ".status.accepted", "Whether the decision took effect.", kind="boolean"),
            column("Approver", ".status.approver", "Who answered."),
            column("Message", ".status.message", "Effect of the decision, or the reason why it had none.", wide=True),
        ],
    )


CRDS: Mapping[str, Callable[[], dict[str, Any]]] = {
    f"{resource.group}_{resource.plural}.yaml": make
    for resource, make in (
        (WORKFLOWS, workflow_crd),
        (ANALYSES, analysis_crd),
        (INVOCATIONS, invocation_crd),
        (CONTRACTS, contract_crd),
        (APPROVALS, approval_crd),
    )
}
"""Makers of the definitions by the names of their files."""


def crd_text(crd: Mapping[str, Any]) -> str:
    """A definition as a YAML file."""
    return _HEADER + yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Writes equal parts out each time: anchors would make the file harder to read, and to template."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
