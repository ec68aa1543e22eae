"""Without the admission webhook somebody approves a run with kubectl, where nobody can say who it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from formulary_catalog.domain.runs.run import UNPROVEN_USER, UNPROVEN_USERS, Phase
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_operator.api.names import APPROVALS
from support.cluster import OperatorAccount, condition, fetch, objects
from support.cluster_runs import (
    await_phase,
    created_jobs,
    kinds,
    prove,
    remedy,
    run_object,
    running_operator,
    server_request,
    submit,
)
from support.control_plane import Cluster, ControlPlane
from support.manifest import approval
from support.operator_process import Daemon, server
from support.runs import HARMLESS, request
from support.waiting import wait_until


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator without a webhook, with the remedy in its catalog."""
    with running_operator(cluster, remedy(), dsn=dsn, namespace=ns, account=operator_account) as daemon:
        yield daemon


def _answered(cluster: Cluster, name: str, *, namespace: str) -> dict[str, Any]:
    """The status of an approval once it has one."""

    def status() -> dict[str, Any]:
        named = [each for each in objects(cluster, APPROVALS, namespace=namespace) if each["metadata"]["name"] == name]
        return next((each["status"] for each in named if each.get("status")), {})

    wait_until(lambda: bool(status()), what=f"an answer to {name}", seconds=30)
    return status()


@contextmanager
def _approver(plane: ControlPlane, dsn: str, *, namespace: str) -> Iterator[httpx2.Client]:
    """Ben, who may approve runs of this namespace, at a server that asks the API server who he is."""
    reviewer = plane.kubeconfig_for(plane.service_account(namespace, "server", audiences=[]))
    reviews = ["create", "clusterrolebinding", f"{namespace}-reviews", "--clusterrole=system:auth-delegator"]
    plane.kubectl(*reviews, f"--serviceaccount={namespace}:server")
    token = plane.service_account(namespace, "ben")
    place = f"--namespace={namespace}"
    plane.kubectl("create", "role", "approver", "--verb=create", "--resource=invocationapprovals.formulary.dev", place)
    plane.kubectl("create", "rolebinding", "ben", "--role=approver", f"--serviceaccount={namespace}:ben", place)
    with server(dsn=dsn, kubeconfig=reviewer, authentication="kubernetes", catalog_namespace=namespace) as serving:
        serving.start().wait_ready()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=f"{serving.url}/api/v1", headers=headers, trust_env=False) as client:
            yield client


def test_an_approval_by_nobody_starts_nothing_and_the_same_over_rest_does(
    control_plane: ControlPlane, dsn: str, ns: str, running: Daemon
) -> None:
    run = submit(dsn, server_request("guarded", namespace=ns, environment="production")).id
    await_phase(control_plane, run, "AwaitingApproval", namespace=ns)
    control_plane.apply(approval("by-nobody", run=run), namespace=ns)
    answered = _answered(control_plane, "by-nobody", namespace=ns)
    said = condition({"status": answered}, "Accepted")
    assert (answered["accepted"], said["reason"]) == (False, "Unproven")
    assert f"`formulary approve {run}`" in said["message"]
    assert "approver" not in answered
    assert fetch(dsn, "select uid from formulary.invocation_approval where invocation_id = $1", run) == []
    with _approver(control_plane, dsn, namespace=ns) as ben:
        assert await_phase(control_plane, run, "AwaitingApproval", namespace=ns)
        assert run not in created_jobs(control_plane.requests(), namespace=ns)
        done = ben.post(f"/invocations/{run}/approval", json={"decision": "Approve"})
        assert done.status_code == 200, done.text
        await_phase(control_plane, run, "Running", namespace=ns)
    assert created_jobs(control_plane.requests(), namespace=ns).count(run) == 1
    approvers = fetch(dsn, "select approver from formulary.invocation_approval where invocation_id = $1", run)
    assert approvers == [(f"system:serviceaccount:{ns}:ben",)]
    assert kinds(dsn, "rr-guarded").count("invocation.approved") == 1


def test_nobody_becomes_somebody_after_the_answer(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    run = submit(dsn, server_request("later", namespace=ns, environment="production", key="later")).id
    await_phase(cluster, run, "AwaitingApproval", namespace=ns)
    cluster.apply(approval("late-record", run=run), namespace=ns)
    _answered(cluster, "late-record", namespace=ns)
    (uid,) = [
        each["metadata"]["uid"]
        for each in objects(cluster, APPROVALS, namespace=ns)
        if each["metadata"]["name"] == "late-record"
    ]
    prove(dsn, uid, namespace=ns, name="late-record")
    running.stop()
    running.start().wait_ready()
    assert run_object(cluster, run, namespace=ns)["status"]["phase"] == "AwaitingApproval"


@pytest.mark.smoke
def test_a_rejection_by_nobody_still_stops_a_run(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    run = submit(dsn, server_request("stopped", namespace=ns, environment="production", key="stopped")).id
    await_phase(cluster, run, "AwaitingApproval", namespace=ns)
    cluster.apply(approval("no", run=run, decision="Reject"), namespace=ns)
    assert (await_phase(cluster, run, "Failed", namespace=ns))["reason"] == "Rejected"
    assert _answered(cluster, "no", namespace=ns)["approver"] == UNPROVEN_USER


@pytest.mark.parametrize("nobody", sorted(UNPROVEN_USERS))
@pytest.mark.smoke
async def test_what_nobody_approved_under_an_earlier_release_waits_for_somebody(nobody: str, writing: Database) -> None:
    runs, approvals = RunWriter(writing, shared_namespace="formulary"), ApprovalStore(writing)
    run = (await runs.submit(request(facts=replace(HARMLESS, environment="production")))).invocation
    given = NewApproval(invocation_id=run.id, namespace="shop", decision="Approve", approver=nobody, uid="u-1")
    await approvals.add(given)
    content = {"digest": "sha256:" + "a" * 64, "images": []}
    waiting = await runs.begin(run.id, content=content)
    assert waiting is not None
    assert waiting.phase is Phase.AWAITING_APPROVAL
    await approvals.add(replace(given, approver="ada", uid="u-2"))
    begun = await runs.begin(run.id, content=content)
    assert begun is not None
    assert begun.phase is Phase.RUNNING
