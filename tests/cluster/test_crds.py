"""Our CRDs, and upstream's in their place, on a real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from formulary_catalog.domain.entry import catalog_entry, incident_context
from formulary_operator.api.names import ANALYSES, APPROVALS, CONTRACTS, INVOCATIONS, WORKFLOWS, Resource
from support import control_plane as planes
from support.cluster import install_kinds
from support.control_plane import Cluster, KubectlFailed
from support.filling import starter_documents
from support.kinds import judged, set_status, table, with_value
from support.manifest import analysis, workflow
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "catalog" / "workflows"
SUPPORT = ROOT / "tests" / "support"
UPSTREAM_MANIFESTS = list(yaml.safe_load_all((SUPPORT / "upstream_manifests.yaml").read_text(encoding="utf-8")))
OLDER_THAN_THEIR_SCHEMA = {"older", "analysis-older"}
KINDS = {resource.kind: resource for resource in (WORKFLOWS, ANALYSES, INVOCATIONS, CONTRACTS, APPROVALS)}

every_upstream_manifest = pytest.mark.parametrize(
    "document", UPSTREAM_MANIFESTS, ids=[document["metadata"]["name"] for document in UPSTREAM_MANIFESTS]
)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Cluster]:
    """An API server with CRDs of upstream's shape."""
    with planes.control_plane() as running:
        install_kinds(running, SUPPORT / "upstream_crds")
        yield running


def incident(**spec: Any) -> dict[str, Any]:
    """An AIAnalysis for whatever namespace it is applied to; keyword arguments are put into its spec."""
    document = analysis("a", remediation_id="rr-1", labels={"team": ["payments"]})
    del document["metadata"]["namespace"]
    return document | {"spec": document["spec"] | spec}


@pytest.mark.smoke
@pytest.mark.parametrize("resource", KINDS.values(), ids=KINDS)
def test_the_api_server_takes_them_as_structural(cluster: Cluster, resource: Resource) -> None:
    crd = cluster.get("crd", f"{resource.plural}.{resource.group}")
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions["NamesAccepted"] == conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_the_starter_catalog_comes_back_as_it_was_applied(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", f"--namespace={namespace}", f"--filename={STARTER}")
    kept = {item["metadata"]["name"]: item["spec"] for item in cluster.get("rw", f"--namespace={namespace}")["items"]}
    assert kept == {document["metadata"]["name"]: document["spec"] for document in starter_documents(STARTER)}


@every_upstream_manifest
def test_manifests_of_upstream_apply_unchanged(cluster: Cluster, document: dict[str, Any]) -> None:
    found = judged(cluster, document)
    assert found["spec"] == document["spec"]
    _require_accepted(found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.version", "v1.2.0-rc.1+build.5"),
        ("spec.labels.component", "Deployment"),
        ("spec.labels.severity", [" Critical ", "*"]),
        ("spec.customLabels", {"team": "payments", "region": ["eu", "us"], "none": []}),
        ("spec.detectedLabels", {"hpaEnabled": "True", "stateful": False, "gitOpsTool": "argocd"}),
        ("spec.keywords", "out of memory"),
        ("spec.maintainers", [{"name": "A\u00a0team", "email": "\u00a0a@b.example "}]),
        ("spec.execution.engineConfig", [1, {"nested": [True]}, "text"]),
        ("spec.parameters", [
            {"name": "A", "type": "array", "required": False, "description": "d", "enum": [1, "a", [True]],
             "default": {"any": [1]}, "minimum": 0, "maximum": 0.5, "dependsOn": "B"},
        ]),
    ],
)  # fmt: skip
def test_what_the_catalog_accepts_is_kept_whole(cluster: Cluster, path: str, value: object) -> None:
    document = with_value(workflow("a"), path, value)
    found = judged(cluster, document)
    assert found["spec"] == document["spec"]
    _require_accepted(found)


def test_nulls_are_dropped_rather_than_refused(cluster: Cluster) -> None:
    document = workflow("a")
    document["spec"] |= dict.fromkeys(["title", "riskLevel", "keywords", "steps", "dependencies", "suspend"])
    assert judged(cluster, document, validate=False)["spec"] == workflow("a")["spec"]


def test_the_engine_is_a_job_where_none_is_named(cluster: Cluster) -> None:
    found = judged(cluster, workflow("a", execution={}))
    assert found["spec"] == workflow("a", execution={"engine": "job"})["spec"]


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("spec.version", "latest", "spec.version"),
        ("spec.version", "1.2", "spec.version"),
        ("spec.version", None, "spec.version"),
        ("spec.description.what", " \n ", "spec.description.what"),
        ("spec.description.whenToUse", "x" * 10_001, "spec.description.whenToUse"),
        ("spec.actionType", "restart pod", "spec.actionType"),
        ("spec.labels.severity", [], "spec.labels.severity"),
        ("spec.labels.severity", " ", "spec.labels.severity"),
        ("spec.labels.priority", ["P0", 1], "spec.labels.priority"),
        ("spec.labels.component", None, "spec.labels.component"),
        ("spec.customLabels", {"team": [1]}, "spec.customLabels.team"),
        ("spec.execution.engine", "lambda", "spec.execution.engine"),
        ("spec.execution", None, "spec.execution"),
        ("spec.riskLevel", "extreme", "spec.riskLevel"),
        ("spec.suspend", "perhaps", "spec.suspend"),
        ("spec.steps", [{"command": "true"}], "spec.steps.name"),
        ("spec.related", [{"name": "b", "relation": "likes"}], "spec.related.relation"),
        ("spec.maintainers", [{"name": "a", "email": "nobody"}], "spec.maintainers.email"),
        ("spec.parameters", [{"name": "A", "type": "text", "required": True, "description": "d"}],
         "spec.parameters.type"),
    ],
)  # fmt: skip
def test_a_wrong_workflow_is_refused_by_the_name_of_its_field(
    cluster: Cluster, path: str, value: object, named: str
) -> None:
    with pytest.raises(KubectlFailed, match=rf"{named}: (Invalid|Required|Unsupported|Too long)"):
        judged(cluster, with_value(workflow("a"), path, value), validate=False)


@pytest.mark.smoke
def test_a_misspelled_field_is_refused_before_it_can_be_dropped(cluster: Cluster) -> None:
    # what the API server publishes a moment after a CRD is served
    wait_until(lambda: "rollbackSteps" in cluster.kubectl("explain", "rw.spec"), what="the published schema")
    with pytest.raises(KubectlFailed, match="rollbackStep"):
        judged(cluster, workflow("a", rollbackStep=[]))


@pytest.mark.smoke
def test_no_field_of_an_incident_is_lost_or_refused(cluster: Cluster) -> None:
    document = incident()
    unknown = {"future": {"nested": [1, None, {"a": "b"}]}}
    signal = document["spec"]["analysisRequest"]["signalContext"]
    for part in (document["spec"], document["spec"]["analysisRequest"], signal, signal["enrichmentResults"]):
        part |= unknown
    signal["enrichmentResults"]["kubernetesContext"] |= unknown
    signal["targetResource"] = {"kind": "Pod", **unknown}
    found = judged(cluster, document)
    assert found["spec"] == document["spec"]
    _require_accepted(found)


def test_an_incident_without_an_id_is_refused(cluster: Cluster) -> None:
    with pytest.raises(KubectlFailed, match=r"spec\.remediationId: Invalid"):
        judged(cluster, incident(remediationId=""))


def test_get_shows_what_one_looks_for(cluster: Cluster, namespace: str) -> None:
    cluster.apply(workflow("a", version="1.4.0"), namespace=namespace)
    set_status(cluster, WORKFLOWS, "a", namespace=namespace, status=_refused_status())
    assert table(cluster, "rw", namespace=namespace) == {
        "NAME": "a", "ACTION": "RestartPod", "VERSION": "1.4.0", "STATUS": "Invalid", "READY": "False",
    }  # fmt: skip
    assert table(cluster, "formulary", "--output=wide", namespace=namespace)["REASON"] == "VersionImmutable"


def test_get_shows_how_far_an_analysis_is(cluster: Cluster, namespace: str) -> None:
    cluster.apply(incident(), namespace=namespace)
    status = {"phase": "Failed", "reason": "TimedOut", "postRCAContext": {"detectedLabels": {"stateful": True}}}
    set_status(cluster, ANALYSES, "a", namespace=namespace, status=status)
    shown = table(cluster, "aia", "--output=wide", namespace=namespace)
    assert shown == {"NAME": "a", "PHASE": "Failed", "REASON": "TimedOut"}
    assert cluster.get("aia", "a", f"--namespace={namespace}")["status"] == status


def test_a_status_is_kept_whole_and_a_wrong_one_refused(cluster: Cluster, namespace: str) -> None:
    cluster.apply(workflow("a"), namespace=namespace)
    set_status(cluster, WORKFLOWS, "a", namespace=namespace, status=_refused_status())
    assert cluster.get("rw", "a", f"--namespace={namespace}")["status"] == _refused_status()
    with pytest.raises(KubectlFailed, match=r"status\.catalogStatus"):
        set_status(cluster, WORKFLOWS, "a", namespace=namespace, status={"catalogStatus": "Lost"})


def test_explain_is_a_manual(cluster: Cluster) -> None:
    def labels_explained() -> bool:
        explained = " ".join(cluster.kubectl("explain", "rw.spec.labels").split())
        return (
            "A workflow without the label is allowed" in explained
            and "riskTolerance" in explained
            and "low, medium or high" in explained
        )

    wait_until(labels_explained, what="the published schema")
    assert "Invalid: refused" in " ".join(cluster.kubectl("explain", "rw.status").split())
    assert "Symptoms and evidence" in cluster.kubectl("explain", "rw.spec.description.whenToUse")
    assert "reads the constraints of the incident" in " ".join(cluster.kubectl("explain", "aia").split())


def test_the_starter_catalog_is_served_from_upstreams_crd_too(upstream: Cluster) -> None:
    for document in starter_documents(STARTER):
        _require_accepted(document)
    upstream.kubectl("apply", "--validate=false", f"--filename={STARTER}")
    kept = upstream.get("rw")["items"]
    assert len(kept) == len(list(STARTER.glob("*.yaml")))
    for item in kept:
        _require_accepted(item)
        assert "steps" not in item["spec"], "upstream's CRD is to drop what it does not know"


def test_the_samples_of_upstream_are_valid_there(upstream: Cluster) -> None:
    samples = [each for each in UPSTREAM_MANIFESTS if each["metadata"]["name"] not in OLDER_THAN_THEIR_SCHEMA]
    for document in samples:
        assert judged(upstream, document)["spec"] == document["spec"]


def _require_accepted(document: dict[str, Any]) -> None:
    """Raises InvalidManifest unless the catalog takes it."""
    accept = catalog_entry if document["kind"] == "RemediationWorkflow" else incident_context
    accept(document, source="test", default_namespace="formulary")


def _refused_status() -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "False",
        "observedGeneration": 2,
        "lastTransitionTime": "2026-08-22T10:00:00Z",
        "reason": "VersionImmutable",
        "message": "raise spec.version",
    }
    return {
        "workflowId": "a",
        "versionId": "wf_ver_0123456789abcdef0123",
        "contentHash": "0" * 64,
        "catalogStatus": "Invalid",
        "observedGeneration": 2,
        "embeddingModel": "all-MiniLM-L6-v2@1",
        "indexedAt": "2026-08-22T09:59:59Z",
        "conditions": [condition],
    }
