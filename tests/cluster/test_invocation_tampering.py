"""Runs and people who write into a namespace: what has the name of a run is not what was made for it."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from formulary_operator.api.names import SECRETS
from formulary_operator.runs.status import owner_of
from support.cluster import OperatorAccount, fetch, objects
from support.cluster_runs import approve, await_phase, job, remedy, run_object, running_operator, server_request, submit
from support.control_plane import Cluster, KubectlFailed
from support.operator_process import Daemon
from support.waiting import wait_until

PIPELINE_RUNS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: pipelineruns.tekton.dev}}
spec:
  group: tekton.dev
  scope: Namespaced
  names: {{plural: pipelineruns, singular: pipelinerun, kind: PipelineRun}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: tekton-in-tests}}
rules: [{{apiGroups: [tekton.dev], resources: [pipelineruns], verbs: [create, get, delete]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: tekton-in-tests}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tekton-in-tests}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: "{user}"}}]
"""


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator with the remedy in its catalog."""
    with running_operator(
        cluster,
        remedy(),
        dsn=dsn,
        namespace=ns,
        account=operator_account,
        engines="job,tekton",
        tekton_bundles="true",
    ) as daemon:
        yield daemon


@pytest.fixture
def tekton(cluster: Cluster, operator_account: OperatorAccount) -> Iterator[None]:
    """The kind PipelineRun, which the operator may create and nobody carries out."""
    cluster.kubectl("apply", "--filename=-", input=PIPELINE_RUNS.format(user=operator_account.user))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/pipelineruns.tekton.dev")
    # The API server learns of the kind and of the right to it a moment later.
    wait_until(lambda: _may_read_pipeline_runs(cluster, operator_account), what="the operator to reach the kind")
    yield
    made = ("crd/pipelineruns.tekton.dev", "clusterrole/tekton-in-tests", "clusterrolebinding/tekton-in-tests")
    cluster.kubectl("delete", "--ignore-not-found", *made)


def _may_read_pipeline_runs(cluster: Cluster, account: OperatorAccount) -> bool:
    """Whether the API server serves the kind and lets the operator read it: it says then that this one is not there."""
    path = f"/apis/tekton.dev/v1/namespaces/{account.namespace}/pipelineruns/none"
    try:
        cluster.kubectl("get", f"--raw={path}", kubeconfig=account.kubeconfig)
    except KubectlFailed as refused:
        return '"none" not found' in str(refused)
    return False


def _noted(dsn: str, invocation_id: str) -> bool:
    return bool(fetch(dsn, "select id from formulary.invocation where id = $1 and reference <> '{}'", invocation_id))


def _like(made: dict[str, Any]) -> dict[str, Any]:
    """A Job with the name and the owner of another."""
    kept = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    container = {"name": "workflow", "image": "registry.example/other:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": kept, "spec": {"template": template}}


def test_a_job_that_somebody_puts_in_the_place_of_another_is_not_followed(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("replaced", namespace=ns, timeout_seconds=600))
    wait_until(lambda: _noted(dsn, asked.id), what="the run to be under way")
    made = job(cluster, asked.id, namespace=ns)
    running.kill()
    cluster.kubectl("delete", "job", asked.id, f"--namespace={ns}")
    cluster.apply(_like(made), namespace=ns)
    running.start().wait_ready()
    reached = await_phase(cluster, asked.id, "Failed", namespace=ns)
    assert "somebody deleted it" in reached["message"]


def test_a_run_whose_engine_vanishes_ends_when_its_time_is_over(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, tekton: None
) -> None:
    execution = {"engine": "tekton", "engineConfig": {"pipelineRef": "restart"}}
    released = {"name": "default", "labels": {"formulary.dev/runs": "allowed"}}
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": released}, namespace=ns)
    asked = submit(
        dsn, server_request("vanished", namespace=ns, timeout_seconds=600, manifest=remedy(execution=execution))
    )
    wait_until(lambda: _noted(dsn, asked.id), what="the run to be under way", shown=running.output)
    # Nobody looks while the kind goes: its objects go first, which would look as if somebody had deleted the run.
    running.kill()
    cluster.kubectl("delete", "crd/pipelineruns.tekton.dev")
    over = "update formulary.invocation set started_at = started_at - interval '1 hour' where id = $1 returning id"
    assert fetch(dsn, over, asked.id)
    running.start().wait_ready()
    reached = await_phase(cluster, asked.id, "Failed", namespace=ns, seconds=60)
    assert "so that its outcome is unknown" in reached["message"]


def test_a_secret_that_somebody_puts_there_first_is_not_what_the_run_reads(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("planted", namespace=ns, environment="production", secret={"TOKEN": "real"}))
    await_phase(cluster, asked.id, "AwaitingApproval", namespace=ns)
    forged = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": asked.id}, "stringData": {"TOKEN": "forged"}}
    cluster.apply(forged, namespace=ns)
    approve(dsn, asked.id, namespace=ns)
    wait_until(lambda: job(cluster, asked.id, namespace=ns), what="the Job")
    (container,) = job(cluster, asked.id, namespace=ns)["spec"]["template"]["spec"]["containers"]
    (read,) = [variable["valueFrom"]["secretKeyRef"] for variable in container["env"] if "valueFrom" in variable]
    found = {each["metadata"]["name"]: each["data"] for each in objects(cluster, SECRETS, namespace=ns)}
    assert base64.b64decode(found[read["name"]][read["key"]]) == b"real"


def test_a_job_that_somebody_makes_in_the_name_of_a_run_is_not_taken_for_it(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("forged", namespace=ns, environment="production"))
    await_phase(cluster, asked.id, "AwaitingApproval", namespace=ns)
    owner = owner_of(run_object(cluster, asked.id, namespace=ns))
    forged = _like({"metadata": {"name": asked.id, "namespace": ns, "labels": {}, "ownerReferences": [owner]}})
    cluster.apply(forged, namespace=ns)
    approve(dsn, asked.id, namespace=ns)
    reached = await_phase(cluster, asked.id, "Failed", namespace=ns)
    assert reached["reason"] == "StartFailed"
    assert "belongs to something else" in reached["message"]
    assert "executionRef" not in reached
