"""A real API server takes the Jobs that are built, in a server-side dry run: nothing is created."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.runs.run import RunTarget
from formulary_operator.engines import ENGINES
from formulary_operator.engines.job import JOBS
from formulary_operator.engines.plan import RunPlan
from support.control_plane import Cluster
from support.filling import starter_documents
from support.plans import BUNDLE, INVOCATION, container, plan

STARTER = Path(__file__).parents[2] / "catalog" / "workflows"
OWNER = {
    "apiVersion": "formulary.dev/v1alpha1",
    "kind": "WorkflowInvocation",
    "name": INVOCATION,
    "uid": "9f2f7f0e-3d5c-4f0a-8e62-1c2d3e4f5a6b",
    "controller": True,
}


def accepted(cluster: Cluster, run: RunPlan) -> dict[str, Any]:
    """The Job as the API server would keep it; raises where it would not."""
    path = f"{JOBS.path(namespace=run.namespace)}?dryRun=All"
    manifest = ENGINES["job"].manifest(run)
    found: dict[str, Any] = json.loads(
        cluster.kubectl("create", "--raw", path, "--filename=-", input=json.dumps(manifest))
    )
    return found


def is_kept(sent: object, kept: object) -> bool:
    """Whether all that was sent is there, beside what the API server adds."""
    if isinstance(sent, Mapping) and isinstance(kept, Mapping):
        return all(is_kept(value, kept.get(key)) for key, value in sent.items())
    if isinstance(sent, list) and isinstance(kept, list):
        return len(sent) == len(kept) and all(map(is_kept, sent, kept))
    return sent == kept


@pytest.fixture(scope="module")
def full(shared_namespace: str) -> RunPlan:
    """A run that uses everything that a Job can have."""
    return plan(
        namespace=shared_namespace,
        owner=OWNER,
        values={"NAME": "$(HOME) $$", "COUNT": 3, "ITEMS": ["a", True]},
        sensitive=frozenset({"PASSWORD"}),
        execution={
            "bundle": BUNDLE,
            "bundleDigest": f"sha256:{'0a' * 32}",
            "serviceAccountName": "remediation",
            "engineConfig": {
                "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 1.5, "memory": "1Gi"}},
                "runAsUser": 1001,
            },
        },
        dependencies={"secrets": [{"name": "git.creds"}], "configMaps": [{"name": "settings"}]},
        steps=[{"name": "look", "command": 'echo "$(date) $$"'}],
    )


@pytest.mark.smoke
def test_the_api_server_takes_a_job_with_everything_and_keeps_it(cluster: Cluster, full: RunPlan) -> None:
    sent = ENGINES["job"].manifest(full)
    found = accepted(cluster, full)
    # Servers before 1.21 know this field and drop it.
    sent["spec"].pop("ttlSecondsAfterFinished")
    # Quantities come back in their shortest form.
    sent["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1500m"
    assert is_kept(sent, found)
    assert container(found)["env"] == container(sent)["env"]


def test_a_dry_run_creates_nothing(cluster: Cluster, full: RunPlan) -> None:
    accepted(cluster, full)
    assert cluster.get("jobs", f"--namespace={full.namespace}")["items"] == []


def test_the_api_server_takes_the_jobs_of_the_whole_starter_catalog(cluster: Cluster, shared_namespace: str) -> None:
    for document in starter_documents(STARTER):
        workflow = catalog_entry(document, source="starter", default_namespace="formulary").workflow
        run = RunPlan(
            invocation_id=INVOCATION,
            namespace=shared_namespace,
            workflow=workflow,
            version_id="wf_ver_0123456789abcdef0123",
            values={each.name: "v" for each in workflow.spec.parameters},
            target=RunTarget(),
            timeout_seconds=300,
        )
        assert accepted(cluster, run)["metadata"]["name"] == INVOCATION


def test_a_new_job_is_a_run_that_goes_on(cluster: Cluster, full: RunPlan) -> None:
    found = ENGINES["job"].observe(accepted(cluster, full))
    assert not found.phase.is_final
    assert found.finished_at is None
