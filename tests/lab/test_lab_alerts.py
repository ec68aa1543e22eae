"""From an alert to a true outcome without anybody's hand: fault, Prometheus, incident, agent, Job, verdict."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lab.node.formulary_image import ROOT
from lab.node.images import BUSYBOX_IMAGE
from lab.node.node import Node
from lab.product import NAMESPACE, Product
from support.alerting import RULE, Alerting, alerting
from support.teams import WATCHED
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
TOKEN = "a-token-of-twenty-characters"
TEXTS = (
    "Deployment has not matched the expected number of replicas.",
    "The new pods of the release are not ready, readiness probe failed.",
)
UNDO, RESTART = "undo-release", "restart-release"
REMEDIES = {
    UNDO: 'kubectl -n "${NAMESPACE}" rollout undo "${WORKLOAD}" && '
    'kubectl -n "${NAMESPACE}" rollout status "${WORKLOAD}" --timeout=90s',
    RESTART: 'kubectl -n "${NAMESPACE}" rollout restart "${WORKLOAD}"',
}
"""Two workflows of the team for the same alert. Only the first one heals a release that is broken."""


@pytest.fixture(scope="module")
def alerts(node: Node, product: Product) -> Iterator[Alerting]:
    """Prometheus and Alertmanager, whose alerts become incidents of the namespace, which has remedies of its own."""
    node.kubectl("label", "--overwrite", "namespace", WATCHED, "environment=staging")
    node.apply(*(_remedy(name, command) for name, command in REMEDIES.items()), *_source(), namespace=WATCHED)
    wait_until(lambda: _is_ready(node), what="the source of alerts")
    with alerting(receiver=f"{product.url}/api/v1/incidents/{WATCHED}/alerts", token=TOKEN) as started:
        yield started


@pytest.mark.parametrize(("workflow", "outcome"), [(UNDO, "Helped"), (RESTART, "NotHelped")])
def test_what_an_alert_led_to_is_known_without_anybodys_hand(
    workflow: str, outcome: str, node: Node, product: Product, alerts: Alerting
) -> None:
    name = f"carts-{workflow}"
    node.apply(_deployment(name), namespace=WATCHED)
    wait_until(lambda: _ready_pods(node, name) == 1, what="the healthy release")
    node.kubectl("set", "env", f"deployment/{name}", "INDEX=products-42", f"--namespace={WATCHED}")
    wait_until(lambda: _ready_pods(node, name) == 0, what="the broken release")
    _scrape(alerts, node, name)
    wait_until(lambda: name in alerts.fingerprints(), what="the alert")
    incident = f"al-{alerts.fingerprints()[name]}"
    product.await_incident(incident)

    offered = product.search(" ".join((RULE, *TEXTS)), incident=incident)
    assert {UNDO, RESTART} <= {hit.workflow.rpartition("/")[2] for hit in offered}
    done = product.run(workflow, incident=incident, namespace=WATCHED, values={}, seconds=120)
    assert (done.state, done.approved) == ("completed", False), done.message

    def outcome_of() -> str:
        _scrape(alerts, node, name)
        return str(product.look_at(done.id)["outcome"])

    wait_until(outcome_of, what="the outcome", seconds=200, shown=lambda: str(product.look_at(done.id)))
    assert _ready_pods(node, name) == int(outcome == "Helped")
    found = product.look_at(done.id)
    assert (found["outcome"], found["fitness"]) == (outcome, int(outcome == "Helped")), found["feedback"]
    assert "the alert resolved" in found["feedback"] or outcome != "Helped"
    object_ = node.get("workflowinvocations.formulary.dev", done.id, f"--namespace={WATCHED}")
    assert object_["status"]["outcome"] == outcome


def _scrape(alerts: Alerting, node: Node, name: str) -> None:
    """Have the exporter say what the cluster does, as kube-state-metrics would."""
    alerts.exporter.unavailable = {(WATCHED, name): int(_ready_pods(node, name) != 1)}


def _remedy(name: str, command: str) -> dict[str, Any]:
    """A workflow of the starter catalog with other steps, and an outcome that is known within a minute."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "catalog" / "workflows" / "rollout-stuck-undo.yaml").read_text())
    wanted = ("NAMESPACE", "WORKLOAD")
    parameters = [{"name": each, "type": "string", "required": True, "description": each} for each in wanted]
    document["metadata"] = {"name": name}
    document["spec"] |= {
        "title": f"{name} of a Deployment",
        "steps": [{"name": "act", "command": command}],
        "rollbackSteps": [{"name": "undo", "command": REMEDIES[UNDO]}],
        "parameters": parameters,
        "verification": {"stabilization": "5s", "window": "60s"},
    }
    return document


def _deployment(name: str) -> dict[str, Any]:
    """Ready as long as the index that it serves is there."""
    container = {
        "name": "app",
        "image": BUSYBOX_IMAGE,
        "command": ["sleep", "86400"],
        "env": [{"name": "INDEX", "value": "products-41"}],
        "readinessProbe": {"exec": {"command": ["sh", "-c", 'test "$INDEX" = products-41']}, "periodSeconds": 1},
    }
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    spec = {"strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _source() -> list[dict[str, Any]]:
    """The source, as docs/alerts.md has it, and the right of the operator to read its secret."""
    documents: list[dict[str, Any]] = list(
        yaml.safe_load_all(
            f"""
apiVersion: v1
kind: Secret
metadata: {{name: alerts}}
stringData: {{token: {TOKEN}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: alerts}}
rules: [{{apiGroups: [""], resources: [secrets], resourceNames: [alerts], verbs: [get]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: alerts}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: alerts}}
subjects: [{{kind: ServiceAccount, name: formulary-operator, namespace: {NAMESPACE}}}]
---
apiVersion: formulary.dev/v1alpha1
kind: IncidentSource
metadata: {{name: alerts}}
spec: {{type: alertmanager, namespaces: [{WATCHED}], auth: {{secretRef: {{name: alerts}}}}}}
"""
        )
    )
    return documents


def _is_ready(node: Node) -> bool:
    found = node.get("incidentsources.formulary.dev", "alerts", f"--namespace={WATCHED}")
    return any(
        (each["type"], each["status"]) == ("Ready", "True") for each in found.get("status", {}).get("conditions", ())
    )


def _ready_pods(node: Node, name: str) -> int | None:
    """How many pods of the newest template are ready; None while there is no such pod."""
    found = node.get("deployment", name, f"--namespace={WATCHED}")
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"] or not status.get("updatedReplicas"):
        return None
    return int(status.get("readyReplicas", 0))
