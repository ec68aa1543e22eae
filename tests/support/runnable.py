"""A catalog of workflows that can be run, and incidents to run them for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.databases import migrated_database
from support.manifest import analysis, text, workflow
from support.serving import load

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


def incident(remediation_id: str, *, environment: str, namespace: str = TARGET) -> dict[str, Any]:
    """An incident about a Deployment."""
    document = analysis(remediation_id, remediation_id=remediation_id, environment=environment)
    document["spec"]["analysisRequest"]["signalContext"] |= {
        "signalName": "OOMKilled",
        "targetResource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace},
    }
    return document


def write_manifests(directory: Path) -> Path:
    """A file with workflows of all kinds, and the incidents `rr-staging`, `rr-production` and `rr-system`."""
    file = directory / "runnable.yaml"
    documents = (
        runnable("scale-out"),
        runnable("only-production", labels={**EVERYWHERE, "environment": ["production"]}),
        runnable("slow", estimatedDuration="5m"),
        runnable("fragile"),
        runnable("risky", riskLevel="high"),
        runnable("on-tekton", execution={"engine": "tekton", "bundle": "registry.example/p:1"}),
        runnable("on-pipeline", execution={"engine": "tekton", "engineConfig": {"pipelineRef": "p"}}),
        runnable("on-argo", execution={"engine": "argo", "engineConfig": {"workflowTemplate": "t"}}),
        runnable("on-ansible", execution={"engine": "ansible"}),
        workflow("only-words", labels=EVERYWHERE),
        incident("rr-staging", environment="staging"),
        incident("rr-production", environment="production"),
        incident("rr-system", environment="staging", namespace="kube-system"),
    )
    file.write_text(text(*documents), encoding="utf-8")
    return file


@asynccontextmanager
async def runnable_database(postgres: EmbeddedPostgres, directory: Path) -> AsyncIterator[str]:
    """The DSN of a database that holds these manifests; they are written into the directory."""
    async with migrated_database(postgres) as dsn:
        await load([write_manifests(directory)], dsn=dsn, embedder=None)
        yield dsn


@asynccontextmanager
async def nobody_runs_anything(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """The database as its owner, without an executor; at the end no contract is left, and nothing that waits."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("delete from formulary.executor")
        yield connection
        await connection.execute("delete from formulary.governance_contract")
        await connection.execute(
            "update formulary.invocation set phase = 'Cancelled' "
            "where phase in ('Pending', 'AwaitingApproval', 'Running')"
        )
    finally:
        await connection.close()
