"""Somebody holds the token of the operator, or has it act for them: it is good for nothing where nobody lets runs be.

The rights are those that the chart gives in a real API server, and no test gives it any more.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from support import charts
from support.cluster import OperatorAccount
from support.cluster_runs import await_phase, created_jobs, remedy, running_operator, server_request, submit
from support.control_plane import Cluster, ControlPlane, KubectlFailed
from support.releases import Release

GUARDED = {"jobs", "secrets", "pipelineruns", "workflows", "pods", "configmaps", "serviceaccounts"}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "stolen"},
    "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "evil.example/a"}]}}
    },
}
TARGETS = {"jobs": {"get"}, "pods": {"get"}}
"""What is broken is read everywhere, so that its labels hold when a run starts."""
OWNER_ROLES = tuple(f"system:aggregate-to-{role}" for role in ("view", "edit", "admin"))
"""What the role `admin` of a namespace consists of; here no controller puts it together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stolen:
    """A release of the chart, and the kubeconfig of somebody who holds the token of its operator."""

    cluster: Cluster
    release: Release
    account: OperatorAccount
    opted_in: str
    runs: str

    def kubectl(self, *arguments: str, **more: Any) -> str:
        return self.cluster.kubectl(f"--kubeconfig={self.account.kubeconfig}", *arguments, **more)

    def resources(self, namespace: str) -> set[str]:
        """The resources of interest on which it may do more in a namespace than read targets, one object named by the
        chart apart."""
        rights = self.rights(namespace)
        return {resource for resource, verbs in rights.items() if verbs - TARGETS.get(resource, set())}

    def rights(self, namespace: str) -> dict[str, set[str]]:
        """The verbs that it may use on each resource of interest."""
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
        answer = self.kubectl(
            "create",
            "--raw=/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            "--filename=-",
            input=json.dumps({**review, "spec": {"namespace": namespace}}),
        )
        rules = json.loads(answer)["status"]["resourceRules"]
        assert rules, "the API server told no rules"
        rights: dict[str, set[str]] = {resource: set() for resource in GUARDED}
        for rule in rules:
            for resource in GUARDED.intersection(rule["resources"]) if not rule.get("resourceNames") else ():
                rights[resource].update(rule["verbs"])
        return rights

    def create_job(self, namespace: str) -> str:
        place = (f"--namespace={namespace}", "--dry-run=server", "--filename=-")
        return self.kubectl("create", *place, input=yaml.safe_dump(JOB))


@pytest.fixture(scope="module")
def stolen(cluster: Cluster) -> Iterator[Stolen]:
    mark = uuid.uuid4().hex[:8]
    home, opted_in, runs = f"product-{mark}", f"opted-in-{mark}", f"runs-{mark}"
    cluster.create_namespace(opted_in)
    release = Release(cluster, namespace=home)
    execution = {"namespaces": [opted_in], "runsNamespace": runs, "engines": ["job", "tekton", "argo"], "mode": "auto"}
    release.install({**charts.EXTERNAL, "crds": {"install": False}, "execution": execution})
    token = cluster.service_account(home, "formulary-operator", audiences=[])
    account = OperatorAccount(
        namespace=home,
        user=f"system:serviceaccount:{home}:formulary-operator",
        kubeconfig=cluster.kubeconfig_for(token),
    )
    yield Stolen(cluster=cluster, release=release, account=account, opted_in=opted_in, runs=runs)
    release.uninstall()


@pytest.mark.parametrize("place", ["another tenant's", "kube-system", "default"])
@pytest.mark.smoke
def test_where_nobody_let_it_the_operator_has_no_right_on_jobs_secrets_or_what_they_name(
    stolen: Stolen, namespace: str, place: str
) -> None:
    where = {"another tenant's": namespace}.get(place, place)

    assert stolen.resources(where) == set()
    with pytest.raises(KubectlFailed, match="forbidden"):
        stolen.create_job(where)


def test_where_it_lives_it_can_make_a_secret_and_neither_read_nor_change_one(stolen: Stolen) -> None:
    home = stolen.release.namespace

    # The certificate of its webhook: nobody can be given the right to create one Secret by its name.
    assert {resource: verbs for resource, verbs in stolen.rights(home).items() if verbs} == {
        "secrets": {"create"}
    } | TARGETS
    with pytest.raises(KubectlFailed, match="forbidden"):
        stolen.create_job(home)


def test_the_address_of_the_database_cannot_be_read_with_it(stolen: Stolen) -> None:
    with pytest.raises(KubectlFailed, match="forbidden"):
        stolen.kubectl("get", "secret", "formulary-database", f"--namespace={stolen.release.namespace}")


@pytest.mark.smoke
def test_where_the_chart_was_told_to_it_may_run_something(stolen: Stolen) -> None:
    for namespace in (stolen.opted_in, stolen.runs):
        assert stolen.resources(namespace) == GUARDED
        assert "created" in stolen.create_job(namespace)


@pytest.mark.smoke
def test_the_admin_of_a_namespace_lets_it_in_with_the_command_of_the_notes_and_an_editor_cannot(
    stolen: Stolen, namespace: str
) -> None:
    cluster = stolen.cluster
    for role in OWNER_ROLES:
        cluster.kubectl("create", "rolebinding", role, f"--clusterrole={role}", "--user=owner", f"-n={namespace}")
    for role in OWNER_ROLES[:2]:
        cluster.kubectl(
            "create", "rolebinding", f"{role}-2", f"--clusterrole={role}", "--user=editor", f"-n={namespace}"
        )
    command = _command_of_the_notes(stolen.release, namespace)

    with pytest.raises(KubectlFailed, match="forbidden"):
        cluster.kubectl(*command, "--as=editor")
    assert stolen.resources(namespace) == set()

    # Kubernetes lets nobody pass on what they do not hold, and `admin` holds nothing of engines that are not installed.
    cluster.apply(_engines(), namespace=namespace)
    cluster.kubectl("create", "rolebinding", "engines", "--role=engines", "--user=owner", f"-n={namespace}")
    cluster.kubectl(*command, "--as=owner")
    assert stolen.resources(namespace) == GUARDED


def test_a_run_that_is_asked_for_where_nobody_let_it_fails_and_says_who_can_let_it(
    stolen: Stolen, dsn: str, control_plane: ControlPlane, namespace: str
) -> None:
    settings = {"lease_namespace": stolen.release.namespace, "lease_name": "formulary-operator"}
    with running_operator(stolen.cluster, remedy(), dsn=dsn, namespace=namespace, account=stolen.account, **settings):
        asked = submit(dsn, server_request("bystander", namespace=namespace))

        status = await_phase(stolen.cluster, asked.id, "Failed", namespace=namespace)

    assert "execution.namespaces" in status["message"]
    assert "admin" in status["message"]
    assert created_jobs(control_plane.requests(user=stolen.account.user), namespace=namespace) == []


def _command_of_the_notes(release: Release, namespace: str) -> list[str]:
    values = {**charts.EXTERNAL, "execution": {"mode": "auto", "engines": ["job"]}}
    rendered = charts.templates(values, namespace=release.namespace)
    (notes,) = [text for path, text in rendered.items() if path.endswith("NOTES.txt")]
    (line,) = [line.strip() for line in notes.splitlines() if " create rolebinding " in line and "-runs " in line]
    return line.removeprefix("kubectl ").replace("NAMESPACE", namespace).split()


def _engines() -> dict[str, Any]:
    verbs = ["create", "get", "delete"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "engines"},
        "rules": [
            {"apiGroups": ["tekton.dev"], "resources": ["pipelineruns"], "verbs": verbs},
            {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": verbs},
        ],
    }
