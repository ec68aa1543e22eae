"""The API server that the other tests here rely on."""

import json
import uuid

import pytest

from formulary_operator.api.names import WORKFLOWS
from support.control_plane import AUDIENCE, Cluster, ControlPlane, KubectlFailed, NoControlPlane
from support.control_plane import control_plane as new_control_plane
from support.manifest import workflow


def token_review(cluster: Cluster, token: str) -> dict[str, object]:
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }
    answer = cluster.kubectl("create", "--filename=-", "--output=json", input=json.dumps(review))
    status: dict[str, object] = json.loads(answer)["status"]
    return status


@pytest.mark.smoke
def test_kubectl_applies_and_reads_our_kinds(cluster: Cluster, namespace: str) -> None:
    cluster.apply(workflow("a"), namespace=namespace)
    assert cluster.get("rw", "a", f"--namespace={namespace}")["spec"] == workflow("a")["spec"]


def test_a_token_is_for_its_audience_alone(cluster: Cluster, namespace: str) -> None:
    ours = token_review(cluster, cluster.service_account(namespace, "agent"))
    assert (ours["authenticated"], ours["audiences"]) == (True, [AUDIENCE])
    other = token_review(cluster, cluster.service_account(namespace, "agent", audiences=["vault"]))
    assert "authenticated" not in other


def test_a_service_account_is_allowed_nothing_until_a_role_says_so(cluster: Cluster, namespace: str) -> None:
    its_own = cluster.kubeconfig_for(cluster.service_account(namespace, "operator", audiences=[]))
    with pytest.raises(KubectlFailed, match="cannot list resource"):
        cluster.kubectl("get", "rw", f"--namespace={namespace}", kubeconfig=its_own)
    cluster.kubectl("create", "role", "reader", f"--namespace={namespace}", "--verb=list", "--resource=rw")
    to = f"--serviceaccount={namespace}:operator"
    cluster.kubectl("create", "rolebinding", "reader", f"--namespace={namespace}", "--role=reader", to)
    assert not cluster.kubectl("get", "rw", f"--namespace={namespace}", kubeconfig=its_own)


def test_a_restart_keeps_what_was_stored(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(workflow("a"), namespace=namespace)
    control_plane.stop_api_server(kill=True)
    with pytest.raises(KubectlFailed, match="refused"):
        control_plane.kubectl("get", "rw", f"--namespace={namespace}")
    control_plane.start_api_server()
    assert control_plane.get("rw", "a", f"--namespace={namespace}")["spec"] == workflow("a")["spec"]


def test_the_audit_log_tells_who_did_what(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(workflow("a"), namespace=namespace)
    requests = control_plane.requests(user="admin", verbs=["patch"], resource="remediationworkflows")
    assert [(request.name, request.code) for request in requests if request.namespace == namespace] == [("a", 201)]


def test_a_watch_from_before_a_compaction_is_answered_410(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(workflow("a"), namespace=namespace)
    path = WORKFLOWS.path(namespace=namespace)
    seen = json.loads(control_plane.kubectl("get", "--raw", path))["metadata"]["resourceVersion"]
    control_plane.kubectl("delete", "rw", "a", f"--namespace={namespace}")
    control_plane.forget_history()
    watch = control_plane.kubectl("get", "--raw", f"{path}?watch=1&resourceVersion={seen}&timeoutSeconds=5")
    assert json.loads(watch)["object"]["code"] == 410


def test_without_an_api_server_the_message_names_the_ways_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", f"/nowhere-{uuid.uuid4().hex}")
    with pytest.raises(NoControlPlane, match=r"make control-plane.*KUBEBUILDER_ASSETS.*FORMULARY_TEST_KUBECONFIG"):
        with new_control_plane():
            pass
