"""WorkflowInvocation, GovernanceContract and InvocationApproval on a real API server."""

import json
from typing import Any

import pytest

from formulary_catalog.domain.governance.contract import contract as read_contract
from formulary_operator.api.names import APPROVALS, CONTRACTS, INVOCATIONS, Resource
from support.control_plane import Cluster, KubectlFailed
from support.kinds import judged, set_status, table, with_value
from support.manifest import approval, contract, invocation
from support.waiting import wait_until

RUN = "inv-0123456789abcdef0123"
WINDOW = {
    "days": ["fri", "sat"],
    "from": "22:00",
    "to": "06:00",
    "timeZone": "Europe/Berlin",
    "notBefore": "2026-12-01T00:00:00Z",
    "notAfter": "2027-01-07T00:00:00+01:00",
}
MATCH = {
    "pathPrefix": "/workflows/shop",
    "workflows": ["shop/restart", "*"],
    "actionTypes": ["RestartPod"],
    "namespaces": ["shop"],
    "environments": ["production"],
    "riskLevels": ["high"],
    "callers": ["system:serviceaccount:holmes:holmesgpt"],
    "during": WINDOW,
}


def _condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-22T10:00:00Z",
        "reason": reason,
        "message": "m",
    }


RUN_STATUS = {
    "invocationId": RUN,
    "phase": "Running",
    "reason": "Started",
    "message": "runs as Job inv-0123456789abcdef0123",
    "outputs": {"restarted": ["cart-1"], "nested": {"any": [1, None, True]}},
    "executionRef": {"apiVersion": "batch/v1", "kind": "Job", "name": RUN, "uid": "u"},
    "startedAt": "2026-11-22T10:00:00Z",
    "finishedAt": "2026-11-22T10:00:09Z",
    "verifyAt": "2026-11-22T10:15:09Z",
    "outcome": "Helped",
    "fitness": 1,
    "feedback": "the alert resolved at 10:04:00 UTC",
    "observedGeneration": 1,
    "revision": 4,
    "traceId": "rr-1",
    "decision": {"outcome": "ALLOW", "rules": [{"id": "freeze"}]},
    "conditions": [
        _condition("Accepted", "True", "Accepted"),
        _condition("Approved", "True", "Approved"),
        _condition("Complete", "False", "Started"),
    ],
}
CONTRACT_STATUS = {"observedGeneration": 1, "conditions": [_condition("Ready", "False", "Invalid")]}
APPROVAL_STATUS = {
    "invocationId": RUN,
    "accepted": True,
    "approver": "jane",
    "message": "lets it start",
    "observedGeneration": 1,
    "conditions": [_condition("Accepted", "True", "Accepted")],
}


@pytest.mark.smoke
def test_get_shows_how_a_run_stands(cluster: Cluster, namespace: str) -> None:
    document = invocation("one", workflow="shop/restart", requester="jane", target={"kind": "Pod", "name": "cart-1"})
    cluster.apply(document, namespace=namespace)
    content = {"images": ["registry.example/restart:1"], "serviceAccount": "restarter", "digest": "sha256:0123"}
    status = {**RUN_STATUS, "requester": "jane", "workflowVersion": "1.4.0", "content": content}
    set_status(cluster, INVOCATIONS, "one", namespace=namespace, status=status)

    shown = table(cluster, "wfi", namespace=namespace)
    assert shown.pop("STARTED")
    assert shown == {
        "NAME": "one",
        "WORKFLOW": "shop/restart",
        "VERSION": "1.4.0",
        "PHASE": "Running",
        "OUTCOME": "Helped",
    }
    wide = table(cluster, "wfi", "--output=wide", namespace=namespace)
    assert (wide["REASON"], wide["TARGET"], wide["REQUESTER"]) == ("Started", "cart-1", "jane")
    assert (wide["IMAGES"], wide["ACCOUNT"], wide["DIGEST"]) == (
        '["registry.example/restart:1"]',
        "restarter",
        "sha256:0123",
    )


@pytest.mark.smoke
def test_get_shows_whether_rules_are_in_force(cluster: Cluster, namespace: str) -> None:
    document = contract("rules")
    document["spec"]["scope"] = {"name": "payments"}
    cluster.apply(document, namespace=namespace)
    set_status(cluster, CONTRACTS, "rules", namespace=namespace, status=CONTRACT_STATUS)

    shown = table(cluster, "gcon", "--output=wide", namespace=namespace)
    assert shown == {"NAME": "rules", "SCOPE": "payments", "READY": "False", "REASON": "Invalid"}


@pytest.mark.smoke
def test_get_shows_who_answered_what(cluster: Cluster, namespace: str) -> None:
    cluster.apply(approval("yes"), namespace=namespace)
    set_status(cluster, APPROVALS, "yes", namespace=namespace, status=APPROVAL_STATUS)

    shown = table(cluster, "iappr", namespace=namespace)
    assert shown == {"NAME": "yes", "INVOCATION": RUN, "DECISION": "Approve", "ACCEPTED": "true", "APPROVER": "jane"}


def test_all_of_ours_are_listed_together(cluster: Cluster, namespace: str) -> None:
    cluster.apply(invocation("run"), contract("rules"), approval("yes"), namespace=namespace)

    listed = cluster.kubectl("get", "formulary", "--output=name", f"--namespace={namespace}").split()
    assert {name.partition("/")[2] for name in listed} == {"run", "rules", "yes"}


@pytest.mark.parametrize(
    ("resource", "document", "status"),
    [
        (INVOCATIONS, invocation("one"), RUN_STATUS),
        (CONTRACTS, contract("one"), CONTRACT_STATUS),
        (APPROVALS, approval("one"), APPROVAL_STATUS),
    ],
    ids=["run", "contract", "approval"],
)
def test_a_status_is_kept_whole(
    cluster: Cluster, namespace: str, resource: Resource, document: dict[str, Any], status: dict[str, Any]
) -> None:
    cluster.apply(document, namespace=namespace)
    set_status(cluster, resource, "one", namespace=namespace, status=status)
    found = cluster.get(f"{resource.plural}.{resource.group}", "one", f"--namespace={namespace}")
    assert found["status"] == status
    assert found["spec"] == document["spec"]


@pytest.mark.parametrize(
    ("document", "path", "value"),
    [
        (invocation("a"), "spec.workflowRef.snapshot", {"version": "1.0.0", "future": [1, {"a": "b"}]}),
        (invocation("a"), "spec.input", {"REPLICAS": 3, "names": ["a"], "deep": {"a": [True, 0.5]}}),
        (invocation("a"), "spec.target", {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": "shop"}),
        (invocation("a"), "spec.timeoutSeconds", 0.5),
        (invocation("a"), "spec.timeoutSeconds", 43_200),
        (invocation("a"), "spec.dryRun", True),
        (invocation("a"), "spec.idempotencyKey", "k"),
        (approval("a"), "spec.reason", "the database is read-only"),
        (contract("a"), "spec.rules", [{"id": "a", "effect": "REQUIRE_EVIDENCE", "match": MATCH, "rationale": "r"}]),
        (contract("a"), "spec.rules", [{"id": "a", "effect": "ALLOW", "lifts": ["bundle", "repeat-failure"]}]),
        (contract("a"), "spec.rules", [{"id": "a", "effect": "REQUIRE_APPROVAL", "lifts": []}]),
        (contract("a", match={"during": {"from": "22:00"}}), "spec.scope", {"name": "payments"}),
        (contract("a"), "spec.rules", []),
    ],
)
def test_what_may_be_said_is_kept_whole(cluster: Cluster, document: dict[str, Any], path: str, value: object) -> None:
    wanted = with_value(document, path, value)
    assert judged(cluster, wanted)["spec"] == wanted["spec"]
    if wanted["kind"] == CONTRACTS.kind:
        read_contract(wanted["spec"], name="a", namespace="shop")


def test_a_snapshot_keeps_what_its_hash_was_made_of_nulls_included(cluster: Cluster, namespace: str) -> None:
    snapshot = {"execution": {"engineConfig": {"a": None, "b": [None, {"c": None}], "d": 1.0}}}
    document = with_value(invocation("one"), "spec.workflowRef.snapshot", snapshot)
    path = INVOCATIONS.path(namespace=namespace)
    cluster.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(document))
    found = json.loads(cluster.kubectl("get", f"--raw={path}/one"))
    assert found["spec"]["workflowRef"]["snapshot"] == snapshot


@pytest.mark.parametrize(
    ("document", "path", "value", "named"),
    [
        (invocation("a"), "spec.workflowRef", None, "spec.workflowRef"),
        (invocation("a"), "spec.workflowRef.workflowId", " ", "spec.workflowRef.workflowId"),
        (invocation("a"), "spec.input", ["a"], "spec.input"),
        (invocation("a"), "spec.timeoutSeconds", 0, "spec.timeoutSeconds"),
        (invocation("a"), "spec.timeoutSeconds", 43_201, "spec.timeoutSeconds"),
        (approval("a"), "spec.invocationId", "restart-x7", "spec.invocationId"),
        (approval("a"), "spec.decision", "Yes", "spec.decision"),
        (contract("a"), "spec.rules", None, "spec.rules"),
        (contract("a"), "spec.rules", [{"effect": "DENY"}], "spec.rules.id"),
        (contract("a"), "spec.rules", [{"id": "a", "effect": "FORBID"}], "spec.rules.effect"),
        (contract("a"), "spec.rules", [{"id": "a", "effect": "ALLOW", "lifts": ["*"]}], r"spec.rules\S*lifts\S*"),
        (contract("a", match={"riskLevels": ["extreme"]}), "spec.scope", {}, "spec.rules.match.riskLevels"),
        (contract("a", match={"workflows": ["shop/*"]}), "spec.scope", {}, "spec.rules.match.workflows"),
        (contract("a", match={"during": {"from": "6 o'clock"}}), "spec.scope", {}, "spec.rules.match.during.from"),
    ],
)
def test_what_means_nothing_is_refused_by_the_name_of_its_field(
    cluster: Cluster, document: dict[str, Any], path: str, value: object, named: str
) -> None:
    with pytest.raises(KubectlFailed, match=rf"{named}: (Invalid|Required|Unsupported)"):
        judged(cluster, with_value(document, path, value), validate=False)


def test_a_misspelt_limit_of_a_rule_is_kept_for_the_operator_to_refuse(cluster: Cluster) -> None:
    document = contract("a", match={"namespace": ["shop"], "during": {"timezone": "Europe/Berlin"}})
    assert judged(cluster, document)["spec"] == document["spec"]


def test_explain_is_a_manual_for_runs_and_approvals(cluster: Cluster) -> None:
    wait_until(lambda: "idempotencyKey" in cluster.kubectl("explain", "wfi.spec"), what="the published schema")
    assert "to cancel, delete the object" in " ".join(cluster.kubectl("explain", "wfi.spec").split())
    assert "A rejection overrides any approval" in " ".join(cluster.kubectl("explain", "iappr.spec").split())
    assert "Rules on which runs are allowed" in " ".join(cluster.kubectl("explain", "gcon").split())
