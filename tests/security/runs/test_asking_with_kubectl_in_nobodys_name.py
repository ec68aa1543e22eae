"""Somebody who may only create WorkflowInvocations asks unseen, or for an incident or namespace not theirs to read."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster import OperatorAccount
from support.cluster_runs import INPUT, ask, await_phase, incident, job, prove, remedy, run_object, running_operator
from support.control_plane import Cluster
from support.manifest import contract, invocation
from support.operator_process import Daemon
from support.waiting import wait_until

MALLORY = {"username": "system:serviceaccount:people:mallory", "groups": ["system:authenticated"]}
SOURCE = {"name": "SOURCE_NAMESPACE", "type": "string", "required": True, "description": "Where to copy from."}
COPY = remedy("copy", parameters=[SOURCE])
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator with both remedies in its catalog."""
    with running_operator(
        cluster, remedy(), COPY, dsn=dsn, namespace=ns, account=operator_account, context_target="kubernetes"
    ) as daemon:
        yield daemon


def _get(resource: str, *, group: str = "", namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Mallory's right to get a kind of object in a namespace."""
    kind = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": f"reads-{resource}", "namespace": namespace}}
    rule = {"apiGroups": [group], "resources": [resource], "verbs": ["get"]}
    return (
        {**kind, "kind": "Role", "rules": [rule]},
        {
            **kind,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": f"reads-{resource}"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": MALLORY["username"]}],
        },
    )


def _ask_as_mallory(cluster: Cluster, dsn: str, name: str, *, namespace: str, **spec: Any) -> None:
    asked = {"input": INPUT, "remediationId": f"rr-{name}", **spec}
    cluster.apply(invocation(name, **asked), namespace=namespace)
    uid = run_object(cluster, name, namespace=namespace)["metadata"]["uid"]
    prove(dsn, uid, namespace=namespace, name=name, user=MALLORY)
    cluster.apply(incident(name, namespace=namespace), namespace=namespace)


@pytest.mark.smoke
def test_a_run_that_nobody_is_proven_to_ask_for_waits_for_an_approval_whatever_rules_allow(
    cluster: Cluster, ns: str, running: Daemon
) -> None:
    cluster.apply(contract("lenient", effect="ALLOW", match={}), namespace=ns)
    cluster.kubectl("wait", "--for=condition=Ready", "--timeout=30s", f"--namespace={ns}", "gcon/lenient")
    ask(cluster, "unseen", namespace=ns)
    told = await_phase(cluster, "unseen", "AwaitingApproval", namespace=ns)
    cluster.kubectl("delete", "gcon", "lenient", f"--namespace={ns}")
    assert "the requester is unproven" in told["message"]
    assert job(cluster, told["invocationId"], namespace=ns) == {}


def test_an_incident_that_the_requester_may_not_read_is_unknown_and_nothing_runs(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    _ask_as_mallory(cluster, dsn, "not-hers", namespace=ns)
    told = await_phase(cluster, "not-hers", "Failed", namespace=ns)
    assert told["reason"] == "InputInvalid"
    assert "is unknown, or its requester may not `get aianalyses` there" in told["message"]


def test_who_may_read_the_incident_may_ask_for_a_run_of_it(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    cluster.apply(*_get("aianalyses", group="kubernaut.ai", namespace=ns), namespace=ns)
    _ask_as_mallory(cluster, dsn, "hers", namespace=ns)
    wait_until(lambda: run_object(cluster, "hers", namespace=ns).get("status"), what="the run to be recorded")
    told = await_phase(cluster, "hers", "Running", namespace=ns)
    assert job(cluster, told["invocationId"], namespace=ns)


def test_a_run_for_an_incident_says_nothing_of_a_namespace_that_its_requester_may_not_get(
    cluster: Cluster, dsn: str, ns: str, namespace: str, running: Daemon
) -> None:
    friends = f"{namespace}-friends"
    cluster.create_namespace(friends)
    cluster.kubectl("label", "namespace", namespace, friends, "constraint.formulary.dev/restarts=no")
    cluster.apply(*_get("namespaces", namespace=friends), namespace=friends)
    cluster.apply(*_get("aianalyses", group="kubernaut.ai", namespace=ns), namespace=ns)

    def failure_of(name: str, *, source: str) -> str:
        values = {"input": {"SOURCE_NAMESPACE": source}, "workflowRef": {"workflowId": "copy"}}
        _ask_as_mallory(cluster, dsn, name, namespace=ns, **values)
        status = await_phase(cluster, name, "Failed", namespace=ns)
        return f"{status['reason']} {status['message']}"

    there, nowhere = failure_of("of-others", source=namespace), failure_of("of-nobody", source="nowhere")
    assert "may not get namespaces" in there
    assert there.replace(namespace, "nowhere") == nowhere
    known = failure_of("of-friends", source=friends)
    assert known.startswith("Denied")
    assert f"the owners of {friends}/Namespace/{friends} demand now" in known
