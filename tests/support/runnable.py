"""A catalog of workflows that can be run, and incidents to run them for."""

from pathlib import Path
from typing import Any

from formulary_catalog.domain.request import ContextReference
from support.manifest import analysis, text, workflow

STAGING = ContextReference(remediation_id="rr-staging")
PRODUCTION = ContextReference(remediation_id="rr-production")
TARGET = "shop-apps"
"""The namespace of what is ill, and so that of the runs."""
REPLICAS = {"name": "REPLICAS", "type": "integer", "required": True, "description": "How many.", "minimum": 1}
TOKEN = {"name": "TOKEN", "type": "string", "required": False, "description": "A key.", "sensitive": True}
SAY = {"name": "SAY", "type": "string", "required": False, "description": "What to say.", "default": "hello"}
EVERYWHERE = {"severity": "*", "environment": "*", "component": "*", "priority": "*"}


def runnable(name: str, **spec: Any) -> dict[str, Any]:
    """A workflow of low risk that can be run; keyword arguments are put into its spec."""
    given: dict[str, Any] = {
        "labels": EVERYWHERE,
        "riskLevel": "low",
        "parameters": [REPLICAS, TOKEN, SAY],
        "steps": [{"name": "go", "command": "kubectl rollout restart deployment/web"}],
        "rollbackSteps": [{"name": "back", "command": "kubectl rollout undo deployment/web"}],
        "execution": {"engine": "job", "bundle": "registry.example/tools:1.0.0"},
    }
    return workflow(name, **(given | spec))


def incident(remediation_id: str, *, environment: str) -> dict[str, Any]:
    """An incident about a Deployment."""
    document = analysis(remediation_id, remediation_id=remediation_id, environment=environment)
    document["spec"]["analysisRequest"]["signalContext"]["targetResource"] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "namespace": TARGET,
    }
    return document


def write_manifests(directory: Path) -> Path:
    """A file with workflows of all kinds, and the incidents `rr-staging` and `rr-production`."""
    file = directory / "runnable.yaml"
    documents = (
        runnable("scale-out"),
        runnable("only-production", labels={**EVERYWHERE, "environment": ["production"]}),
        runnable("slow", estimatedDuration="5m"),
        runnable("fragile"),
        runnable("risky", riskLevel="high"),
        runnable("on-tekton", execution={"engine": "tekton", "bundle": "registry.example/p:1"}),
        runnable("on-ansible", execution={"engine": "ansible"}),
        workflow("only-words", labels=EVERYWHERE),
        incident("rr-staging", environment="staging"),
        incident("rr-production", environment="production"),
    )
    file.write_text(text(*documents), encoding="utf-8")
    return file
