"""Small valid manifests for tests."""

from typing import Any

import yaml


def workflow(name: str, *, version: str = "1.0.0", what: str = "Restarts it.", **spec: Any) -> dict[str, Any]:
    """A RemediationWorkflow document; keyword arguments are put into its spec."""
    return {
        "apiVersion": "kubernaut.ai/v1alpha1",
        "kind": "RemediationWorkflow",
        "metadata": {"name": name},
        "spec": {
            "version": version,
            "description": {"what": what, "whenToUse": f"When {name} helps."},
            "actionType": "RestartPod",
            "labels": {
                "signalType": ["OOMKilled"],
                "severity": ["critical"],
                "environment": ["production"],
                "component": ["v1/Pod"],
                "priority": "*",
            },
            "execution": {"engine": "job"},
            **spec,
        },
    }


def analysis(
    name: str, *, remediation_id: str, labels: dict[str, list[str]] | None = None, environment: str = "production"
) -> dict[str, Any]:
    """An AIAnalysis document."""
    return {
        "apiVersion": "kubernaut.ai/v1alpha1",
        "kind": "AIAnalysis",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "remediationId": remediation_id,
            "analysisRequest": {
                "signalContext": {
                    "environment": environment,
                    "enrichmentResults": {"kubernetesContext": {"customLabels": labels or {}}},
                }
            },
        },
    }


def invocation(name: str, *, workflow: str = "restart", **spec: Any) -> dict[str, Any]:
    """A WorkflowInvocation document; keyword arguments are put into its spec."""
    return _ours("WorkflowInvocation", name, {"workflowRef": {"workflowId": workflow}, **spec})


def approval(name: str, *, run: str = "inv-0123456789abcdef0123", decision: str = "Approve") -> dict[str, Any]:
    """An InvocationApproval document."""
    return _ours("InvocationApproval", name, {"invocationId": run, "decision": decision})


def contract(name: str, *, effect: str = "DENY", match: dict[str, Any] | None = None) -> dict[str, Any]:
    """A GovernanceContract document with one rule."""
    return _ours("GovernanceContract", name, {"rules": [{"id": "only", "effect": effect, "match": match or {}}]})


def text(*documents: dict[str, Any]) -> str:
    """The documents as one YAML file."""
    return yaml.safe_dump_all(documents, sort_keys=False)


def _ours(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "formulary.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
