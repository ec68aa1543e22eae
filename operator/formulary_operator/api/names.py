"""Names of the resources in the Kubernetes API (DESIGN section 2), and the type of their objects."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
"""A JSON object: one of the Kubernetes API, or a part of one."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of an API group; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection or an object; without a namespace that of all, or of none."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        parts = [root, *(("namespaces", namespace) if namespace else ()), self.plural, name, subresource]
        return "/".join(part for part in parts if part)


WORKFLOWS = Resource(
    group="kubernaut.ai", version="v1alpha1", plural="remediationworkflows", kind="RemediationWorkflow"
)
ANALYSES = Resource(group="kubernaut.ai", version="v1alpha1", plural="aianalyses", kind="AIAnalysis")
INVOCATIONS = Resource(
    group="formulary.dev", version="v1alpha1", plural="workflowinvocations", kind="WorkflowInvocation"
)
CONTRACTS = Resource(group="formulary.dev", version="v1alpha1", plural="governancecontracts", kind="GovernanceContract")
APPROVALS = Resource(group="formulary.dev", version="v1alpha1", plural="invocationapprovals", kind="InvocationApproval")
INCIDENT_SOURCES = Resource(group="formulary.dev", version="v1alpha1", plural="incidentsources", kind="IncidentSource")
EVENTS = Resource(group="", version="v1", plural="events", kind="Event")
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease")
CONFIG_MAPS = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap")
PROMETHEUS_RULES = Resource(
    group="monitoring.coreos.com", version="v1", plural="prometheusrules", kind="PrometheusRule"
)
PODS = Resource(group="", version="v1", plural="pods", kind="Pod")
SECRETS = Resource(group="", version="v1", plural="secrets", kind="Secret")
SERVICE_ACCOUNTS = Resource(group="", version="v1", plural="serviceaccounts", kind="ServiceAccount")
VALIDATING_WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration",
)
