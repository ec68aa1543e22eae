"""An author who may only write workflows names accounts, Secrets, images and namespaces that are not theirs to use."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from formulary_operator.api.names import SECRETS
from support.cluster import OperatorAccount, fetch, objects, without_rights_on
from support.cluster_runs import IMAGE, await_phase, job, remedy, running_operator, server_request, submit
from support.control_plane import Cluster
from support.operator_process import Daemon
from support.waiting import wait_until

RELEASED = {"formulary.dev/runs": "allowed"}


@pytest.fixture(scope="module")
def ns(cluster: Cluster, shared_namespace: str) -> str:
    """The namespace of this module, with what its owner has released and what not."""
    cluster.apply(
        _account("formulary-operator"),
        _account("bank-admin"),
        _account("released", RELEASED),
        _account("for-others", RELEASED, catalogs="payments, ledger"),
        _account("half", {"formulary.dev/runs": "true"}),
        _secret("formulary-database"),
        _secret("bank-keys"),
        _secret("released", RELEASED),
        _config_map("bank-config"),
        _config_map("released", RELEASED),
        namespace=shared_namespace,
    )
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator that lets images of one registry run."""
    with running_operator(
        cluster,
        remedy(),
        dsn=dsn,
        namespace=ns,
        account=operator_account,
        engines="job,tekton",
        allowed_images="registry.example/remedies/",
    ) as daemon:
        yield daemon


def _account(name: str, labels: dict[str, str] | None = None, *, catalogs: str | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name, labels, catalogs)}


def _secret(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": _metadata(name, labels), "stringData": {"k": "v"}}


def _config_map(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(name, labels), "data": {"k": "v"}}


def _metadata(name: str, labels: dict[str, str] | None, catalogs: str | None = None) -> dict[str, Any]:
    annotations = {"formulary.dev/runs-catalogs": catalogs} if catalogs is not None else {}
    return {"name": name, "labels": labels or {}, "annotations": annotations}


def _execution(**more: Any) -> dict[str, Any]:
    return {"engine": "job", "bundle": IMAGE, **more}


ATTACKS: dict[str, tuple[dict[str, Any], str]] = {
    "operator": ({"execution": _execution(serviceAccountName="formulary-operator")}, "ServiceAccount formulary-oper"),
    "admin": ({"execution": _execution(serviceAccountName="bank-admin")}, "label --namespace="),
    "half": ({"execution": _execution(serviceAccountName="half")}, "is not released for runs"),
    "for-others": ({"execution": _execution(serviceAccountName="for-others")}, "not released for workflows of"),
    "absent": ({"execution": _execution(serviceAccountName="absent")}, "has no ServiceAccount absent"),
    "database": ({"dependencies": {"secrets": [{"name": "formulary-database"}]}}, "Secret formulary-database"),
    "keys": ({"dependencies": {"secrets": [{"name": "released"}, {"name": "bank-keys"}]}}, "Secret bank-keys"),
    "config": ({"dependencies": {"configMaps": [{"name": "bank-config"}]}}, "ConfigMap bank-config"),
    "image": ({"execution": {"engine": "job", "bundle": "evil.example/x:1"}}, "image evil.example/x:1 is of no"),
    "short": ({"execution": {"engine": "job", "bundle": "busybox"}}, "image busybox is of no registry"),
    "alike": ({"execution": {"engine": "job", "bundle": "registry.example/remedies-evil/x:1"}}, "is of no registry"),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.smoke
def test_a_workflow_cannot_use_what_nobody_released(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, attack: str
) -> None:
    spec, why = ATTACKS[attack]
    asked = submit(dsn, server_request(attack, namespace=ns, manifest=remedy(**spec), secret={"TOKEN": "t"}))
    told = await_phase(cluster, asked.id, "Failed", namespace=ns)
    assert (told["reason"], why in told["message"]) == ("NotPermitted", True), told["message"]
    assert job(cluster, asked.id, namespace=ns) == {}
    assert not [each for each in objects(cluster, SECRETS, namespace=ns) if asked.id in each["metadata"]["name"]]


def test_an_approval_releases_nothing_and_the_owners_label_does(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    spec: dict[str, Any] = {
        "execution": _execution(serviceAccountName="released"),
        "dependencies": {"secrets": [{"name": "released"}], "configMaps": [{"name": "released"}]},
    }
    asked = submit(dsn, server_request("owner", namespace=ns, manifest=remedy(**spec)))
    wait_until(lambda: job(cluster, asked.id, namespace=ns), what="the Job")
    pod = job(cluster, asked.id, namespace=ns)["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("released", True)


def test_without_a_named_account_a_run_has_no_token(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    asked = submit(dsn, server_request("nameless", namespace=ns))
    wait_until(lambda: job(cluster, asked.id, namespace=ns), what="the Job")
    assert job(cluster, asked.id, namespace=ns)["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_who_may_run_nothing_gets_nothing_run_by_writing_a_workflow(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = server_request("written", namespace=ns)
    author = json.dumps({"username": "system:serviceaccount:people:mallory", "groups": ["system:authenticated"]})
    written = "insert into formulary.workflow_author (namespace, version_id, identity) values ($1, $2, $3::jsonb)"
    fetch(dsn, written, ns, asked.version_id, author)
    told = await_phase(cluster, submit(dsn, asked).id, "Failed", namespace=ns)
    fetch(dsn, "delete from formulary.workflow_author where version_id = $1", asked.version_id)
    assert told["reason"] == "NotPermitted"
    assert "people:mallory, who wrote workflow" in told["message"]


def test_nothing_is_run_in_the_namespace_of_the_product(
    cluster: Cluster, dsn: str, namespace: str, operator_account: OperatorAccount
) -> None:
    cluster.apply(_account("released", RELEASED), namespace=namespace)
    with running_operator(
        cluster, remedy(), dsn=dsn, namespace=namespace, account=operator_account, release_namespace=namespace
    ):
        asked = submit(dsn, server_request("inside", namespace=namespace))
        told = await_phase(cluster, asked.id, "Failed", namespace=namespace)
    assert told["reason"] == "NotPermitted"
    assert "which is that of Formulary itself" in told["message"]


def test_where_the_operator_has_no_rights_the_next_step_is_told(
    cluster: Cluster, dsn: str, namespace: str, operator_account: OperatorAccount
) -> None:
    with (
        without_rights_on("jobs", cluster=cluster),
        running_operator(cluster, remedy(), dsn=dsn, namespace=namespace, account=operator_account),
    ):
        asked = submit(dsn, server_request("closed", namespace=namespace))
        told = await_phase(cluster, asked.id, "Failed", namespace=namespace)
    assert told["reason"] == "NamespaceNotOptedIn"
    assert "execution.namespaces" in told["message"]
    assert "/docs/invocation.html" in told["message"]
