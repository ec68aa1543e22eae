"""The CustomResourceDefinitions of the kinds that the operator watches, made from the models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from formulary_catalog.domain.alerts.source import SourceSpec
from formulary_catalog.domain.governance.contract import ContractSpec
from formulary_catalog.domain.workflows.manifest import WorkflowSpec
from formulary_operator.api.analysis import AnalysisSpec
from formulary_operator.api.invocation import ApprovalSpec, ApprovalStatus, InvocationSpec, InvocationStatus
from formulary_operator.api.names import (
    ANALYSES,
    APPROVALS,
    CONTRACTS,
    INCIDENT_SOURCES,
    INVOCATIONS,
    WORKFLOWS,
    Json,
    Resource,
)
from formulary_operator.api.schema import PRESERVE, Schema, structural_schema
from formulary_operator.api.status import ContractStatus, SourceStatus, WorkflowStatus

_COMMON: Mapping[str, Schema] = {
    "apiVersion": {"description": "Version of the schema of this object.", "type": "string"},
    "kind": {"description": "Kind of this object.", "type": "string"},
    "metadata": {"type": "object"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind. `columns` are those of `kubectl get`, to which the age is added."""

    resource: Resource
    short_name: str
    description: str
    spec: Schema
    status: Schema
    columns: Sequence[Mapping[str, Any]]

    def definition(self) -> Json:
        """Its CustomResourceDefinition, of one version."""
        resource = self.resource
        age = column("Age", ".metadata.creationTimestamp", "Age of the object.", kind="date")
        version = {
            "name": resource.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [*self.columns, age],
            "schema": {
                "openAPIV3Schema": {
                    "description": self.description,
                    "type": "object",
                    "required": ["spec"],
                    "properties": {**_COMMON, "spec": self.spec, "status": self.status},
                }
            },
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{resource.plural}.{resource.group}"},
            "spec": {
                "group": resource.group,
                "names": {
                    "kind": resource.kind,
                    "listKind": f"{resource.kind}List",
                    "plural": resource.plural,
                    "singular": resource.kind.lower(),
                    "shortNames": [self.short_name],
                    "categories": ["formulary"],
                },
                "scope": "Namespaced",
                "versions": [version],
            },
        }


def column(
    name: str,
    path: str,
    description: str,
    *,
    kind: Literal["string", "boolean", "date"] = "string",
    wide: bool = False,
) -> Json:
    """A column of `kubectl get`, a wide one only with `--output=wide`; of dates it shows how long ago they were."""
    shown = {"name": name, "type": kind, "description": description, "jsonPath": path}
    return shown | ({"priority": 1} if wide else {})


def ready(field: str) -> str:
    """The path of a field of the condition Ready."""
    return f'.status.conditions[?(@.type=="Ready")].{field}'


_HEADER = "# Generated from the models by `make generate`; change those.\n"


KINDS = (
    Kind(
        resource=WORKFLOWS,
        short_name="rw",
        description="A remediation that a platform team has approved, with the conditions for its use. Agents search "
        "for workflows that fix an incident and receive only those that the incident's labels allow.",
        # What neither upstream nor we know is pruned, as it is upstream.
        spec=structural_schema(WorkflowSpec),
        status=structural_schema(WorkflowStatus),
        columns=(
            column("Action", ".spec.actionType", "Kind of action."),
            column("Version", ".spec.version", "Version of the content."),
            column("Status", ".status.catalogStatus", "State in the catalog."),
            column("Ready", ready("status"), "Whether the newest content is served."),
            column("Reason", ready("reason"), "Reason of the condition Ready.", wide=True),
        ),
    ),
    Kind(
        resource=ANALYSES,
        short_name="aia",
        description="The analysis of one incident. Formulary reads the constraints of the incident from it and never "
        "writes it.",
        # It is somebody else's: every field survives, also those of releases to come.
        spec=structural_schema(AnalysisSpec, keep_unknown=True),
        status={
            "description": "State of the analysis, set by its controller.",
            "type": "object",
            PRESERVE: True,
        },
        columns=(
            column("Phase", ".status.phase", "Phase of the analysis."),
            column("Reason", ".status.reason", "Reason of its end.", wide=True),
        ),
    ),
    Kind(
        resource=INVOCATIONS,
        short_name="wfi",
        description="One run of a workflow: the request, the decision, the outcome. Deleting it cancels the run. The "
        "audit trail keeps what happened.",
        spec=structural_schema(InvocationSpec),
        status=structural_schema(InvocationStatus),
        columns=(
            column("Workflow", ".spec.workflowRef.workflowId", "Workflow of the run."),
            column("Version", ".status.workflowVersion", "Version of the workflow."),
            column("Phase", ".status.phase", "Phase of the run."),
            column("Outcome", ".status.outcome", "Whether the run helped."),
            column("Reason", ".status.reason", "Reason of the phase.", wide=True),
            column("Target", ".spec.target.name", "Resource that the run acts on.", wide=True),
            column("Requester", ".status.requester", "User who requested it, as authenticated.", wide=True),
            column("Images", ".status.content.images", "Images of the run.", wide=True),
            column("Account", ".status.content.serviceAccount", "ServiceAccount of the run, if any.", wide=True),
            column("Digest", ".status.content.digest", "Digest that an approval may name.", wide=True),
            column("Started", ".status.startedAt", "Time since the start.", kind="date"),
        ),
    ),
    Kind(
        resource=CONTRACTS,
        short_name="gcon",
        description="Rules on which runs are allowed where, when and for whom. In the shared catalog namespace they "
        "apply to every run, elsewhere to runs in their own namespace.",
        # Unknown fields are kept, and then refused: a rule without its misspelt limit says more.
        spec=structural_schema(ContractSpec, keep_unknown=True, defaults=False),
        status=structural_schema(ContractStatus),
        columns=(
            column("Scope", ".spec.scope.name", "Subject of the contract."),
            column("Ready", ready("status"), "Whether the newest rules are in force."),
            column("Reason", ready("reason"), "Reason of the condition Ready.", wide=True),
        ),
    ),
    Kind(
        resource=INCIDENT_SOURCES,
        short_name="isrc",
        description="A system whose alerts become incidents. It posts them to /api/v1/incidents/NAMESPACE/NAME of the "
        "server. The constraints of an alert are those of its target.",
        # Unknown fields are kept, and then refused: a misspelt one would be left out in silence.
        spec=structural_schema(SourceSpec, keep_unknown=True, defaults=False),
        status=structural_schema(SourceStatus),
        columns=(
            column("Type", ".spec.type", "System that sends the alerts."),
            column("Ready", ready("status"), "Whether alerts are taken."),
            column("Mapped", '.status.conditions[?(@.type=="Mapped")].status', "Whether all alerts could be used."),
            column("Reason", ready("reason"), "Reason of the condition Ready.", wide=True),
        ),
    ),
    Kind(
        resource=APPROVALS,
        short_name="iappr",
        description="A person's approval or rejection of a run. Everybody who may create this kind may approve. The "
        "API server reports who did.",
        spec=structural_schema(ApprovalSpec),
        status=structural_schema(ApprovalStatus),
        columns=(
            column("Invocation", ".spec.invocationId", "Id of the run."),
            column("Decision", ".spec.decision", "Approve or Reject."),
            column("Accepted", ".status.accepted", "Whether the decision took effect.", kind="boolean"),
            column("Approver", ".status.approver", "User who decided."),
            column("Message", ".status.message", "Effect of the decision, or the reason why it had none.", wide=True),
        ),
    ),
)
CRDS: Mapping[str, Kind] = {f"{kind.resource.group}_{kind.resource.plural}.yaml": kind for kind in KINDS}
"""The kinds by the names of their files."""


def crd_text(crd: Mapping[str, Any]) -> str:
    """A definition as a YAML file."""
    return _HEADER + yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Writes equal parts out each time: anchors would make the file harder to read, and to template."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
