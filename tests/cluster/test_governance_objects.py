"""Contracts and approvals as objects of a real API server: what they allow, forbid and wait for, and what they tell."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.domain.runs.run import Phase, Reason, id_of_request
from formulary_operator.admission.validator import Validator
from formulary_operator.api.names import APPROVALS, CONTRACTS, EVENTS, Resource
from support.admission import Place, judging
from support.cluster import OperatorAccount, condition, fetch, objects
from support.cluster_runs import (
    CALLER,
    INPUT,
    approve,
    ask,
    await_phase,
    created_jobs,
    kinds,
    remedy,
    row,
    running_operator,
    server_request,
    status,
    submit,
)
from support.control_plane import Cluster, ControlPlane
from support.job_controller import JobController, job_controller
from support.manifest import approval, contract, invocation, text
from support.operator_process import Daemon
from support.waiting import wait_until

STORED = "select name from formulary.governance_contract where namespace = $1 and name = $2"


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator with two remedies in its catalog."""
    with running_operator(
        cluster, remedy(), remedy("governed"), dsn=dsn, namespace=ns, account=operator_account
    ) as daemon:
        yield daemon


@pytest.fixture
def jobs(cluster: Cluster, ns: str) -> Iterator[JobController]:
    """Jobs succeed, while a test lasts."""
    with job_controller(cluster, ns) as controller:
        yield controller


def found(cluster: Cluster, resource: Resource, name: str, *, namespace: str) -> dict[str, Any]:
    documents = objects(cluster, resource, namespace=namespace)
    return next((each for each in documents if each["metadata"]["name"] == name), {})


def await_condition(
    cluster: Cluster, resource: Resource, name: str, kind: str, reason: str, *, namespace: str
) -> dict[str, Any]:
    """The object once this condition has this reason for its newest generation."""

    def stands() -> bool:
        document = found(cluster, resource, name, namespace=namespace)
        said = condition(document, kind)
        current = said.get("observedGeneration") == document.get("metadata", {}).get("generation")
        return bool(current and said.get("reason") == reason)

    wait_until(
        stands, what=f"{name} to be {reason}", shown=lambda: str(objects(cluster, resource, namespace=namespace))
    )
    return found(cluster, resource, name, namespace=namespace)


def on_the_governed(name: str, *, effect: str, rationale: str = "just so") -> dict[str, Any]:
    """A contract about the workflow `governed` alone."""
    document = contract(name, effect=effect, match={"workflows": ["governed"]})
    document["spec"]["rules"][0]["rationale"] = rationale
    return document


GOVERNED: dict[str, Any] = {"workflowRef": {"workflowId": "governed"}}


@pytest.mark.smoke
def test_a_contract_denies_and_the_run_says_which_rule_and_why(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    cluster.apply(on_the_governed("freeze", effect="DENY", rationale="end of the quarter"), namespace=ns)
    ready = await_condition(cluster, CONTRACTS, "freeze", "Ready", "InForce", namespace=ns)
    assert condition(ready)["message"] == "1 rule is in force"
    ask(cluster, "denied", namespace=ns, dsn=dsn, **GOVERNED)
    reached = await_phase(cluster, "denied", "Failed", namespace=ns)
    assert reached["reason"] == "Denied"
    assert "DENY by rule only of contract" in reached["message"]
    assert "end of the quarter" in reached["message"]
    (rule,) = reached["decision"]["rules"]
    assert (rule["id"], rule["contract"]) == ("only", f"{ns}/freeze")
    cluster.kubectl("delete", "gcon", "freeze", f"--namespace={ns}")
    wait_until(lambda: fetch(dsn, STORED, ns, "freeze") == [], what="the rules to end")


def test_a_run_that_the_server_was_asked_for_and_denied_at_once_can_be_seen_in_the_cluster(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    cluster.apply(on_the_governed("seen", effect="DENY", rationale="books are closed"), namespace=ns)
    await_condition(cluster, CONTRACTS, "seen", "Ready", "InForce", namespace=ns)
    denied = submit(dsn, server_request(manifest=remedy("governed"), namespace=ns))
    another = submit(dsn, server_request(manifest=remedy("governed"), namespace=ns, key="again"))
    assert (denied.phase, denied.reason) == (Phase.FAILED, Reason.DENIED)
    for run in (denied, another):
        reached = await_phase(cluster, run.object_name, "Failed", namespace=ns)
        assert reached["reason"] == "Denied"
        assert "books are closed" in reached["message"]
        assert "executionRef" not in reached
    events = [each for each in objects(cluster, EVENTS, namespace=ns) if each["reason"] == "Denied"]
    assert denied.object_name in {each["involvedObject"]["name"] for each in events}
    cluster.kubectl("delete", "wfi", denied.object_name, f"--namespace={ns}")
    told_of = "select object_uid <> '' from formulary.invocation where id = $1"
    assert fetch(dsn, told_of, denied.id) == [(True,)]  # so that it is not made again
    cluster.kubectl("delete", "gcon", "seen", f"--namespace={ns}")
    wait_until(lambda: fetch(dsn, STORED, ns, "seen") == [], what="the rules to end")


def test_an_invalid_edit_keeps_the_last_good_rules_in_force_and_says_so(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    cluster.apply(on_the_governed("edited", effect="DENY"), namespace=ns)
    await_condition(cluster, CONTRACTS, "edited", "Ready", "InForce", namespace=ns)
    broken = on_the_governed("edited", effect="DENY")
    broken["spec"]["rules"] *= 2
    cluster.apply(broken, namespace=ns)
    said = condition(await_condition(cluster, CONTRACTS, "edited", "Ready", "Invalid", namespace=ns))
    assert said["status"] == "False"
    assert "the id 'only' is used twice" in said["message"]
    assert "its last good rules stay in force" in said["message"]
    ask(cluster, "still-denied", namespace=ns, dsn=dsn, **GOVERNED)
    assert (await_phase(cluster, "still-denied", "Failed", namespace=ns))["reason"] == "Denied"
    cluster.kubectl("delete", "gcon", "edited", f"--namespace={ns}")
    wait_until(lambda: fetch(dsn, STORED, ns, "edited") == [], what="the rules to end")


def test_a_contract_whose_rules_lift_less_than_in_earlier_releases_says_which(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    lenient = contract("lenient", effect="ALLOW", match={"namespaces": ["elsewhere"]})
    cluster.apply(lenient, namespace=ns)
    ready = await_condition(cluster, CONTRACTS, "lenient", "Ready", "InForce", namespace=ns)
    said = condition(ready)["message"]
    assert said.startswith("1 rule is in force; rule only no longer lifts the approvals that bundle, template, repeat")
    lenient["spec"]["rules"][0]["lifts"] = ["bundle", "repeat-failure"]
    cluster.apply(lenient, namespace=ns)
    wait_until(
        lambda: condition(found(cluster, CONTRACTS, "lenient", namespace=ns))["message"] == "1 rule is in force",
        what="the message to say no more",
    )
    cluster.kubectl("delete", "gcon", "lenient", f"--namespace={ns}")
    wait_until(lambda: fetch(dsn, STORED, ns, "lenient") == [], what="the rules to end")


def test_a_contract_that_is_deleted_while_nobody_watches_ends_at_the_next_start(
    cluster: Cluster, database: str, namespace: str, operator_account: OperatorAccount
) -> None:
    with running_operator(cluster, remedy(), dsn=database, namespace=namespace, account=operator_account) as daemon:
        cluster.apply(on_the_governed("left", effect="DENY"), namespace=namespace)
        await_condition(cluster, CONTRACTS, "left", "Ready", "InForce", namespace=namespace)
        daemon.stop()
        cluster.kubectl("delete", "gcon", "left", f"--namespace={namespace}")
        daemon.start().wait_ready()
        assert fetch(database, STORED, namespace, "left") == []


def test_a_contract_may_turn_a_run_into_a_dry_run(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    cluster.apply(on_the_governed("careful", effect="DEGRADE", rationale="look first"), namespace=ns)
    await_condition(cluster, CONTRACTS, "careful", "Ready", "InForce", namespace=ns)
    ask(cluster, "degraded", namespace=ns, dsn=dsn, **GOVERNED)
    reached = await_phase(cluster, "degraded", "Succeeded", namespace=ns)
    assert reached["reason"] == "Degraded"
    assert "look first" in reached["message"]
    assert reached["outputs"]["manifest"]["kind"] == "Job"
    cluster.kubectl("delete", "gcon", "careful", f"--namespace={ns}")
    wait_until(lambda: fetch(dsn, STORED, ns, "careful") == [], what="the rules to end")


def test_rules_that_come_while_a_run_waits_hold_for_it(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    ask(cluster, "overtaken", namespace=ns, dsn=dsn, environment="production", **GOVERNED)
    await_phase(cluster, "overtaken", "AwaitingApproval", namespace=ns)
    cluster.apply(on_the_governed("late", effect="DENY"), namespace=ns)
    assert (await_phase(cluster, "overtaken", "Failed", namespace=ns))["reason"] == "Denied"
    cluster.kubectl("delete", "gcon", "late", f"--namespace={ns}")
    wait_until(lambda: fetch(dsn, STORED, ns, "late") == [], what="the rules to end")


@pytest.mark.smoke
def test_what_waits_in_production_runs_once_however_often_it_is_approved(
    control_plane: ControlPlane, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    asked = submit(dsn, server_request("waits", namespace=ns, environment="production"))
    reached = await_phase(control_plane, asked.id, "AwaitingApproval", namespace=ns)
    assert "the environment is production" in reached["message"]
    for _ in range(2):
        approve(dsn, asked.id, namespace=ns)
    await_phase(control_plane, asked.id, "Succeeded", namespace=ns)
    assert created_jobs(control_plane.requests(), namespace=ns).count(asked.id) == 1
    happened = kinds(dsn, "rr-waits")
    assert happened.index("invocation.approved") < happened.index("invocation.started")


def test_a_rejection_ends_the_run(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    ask(cluster, "unwanted", namespace=ns, dsn=dsn, environment="production")
    run = (await_phase(cluster, "unwanted", "AwaitingApproval", namespace=ns))["invocationId"]
    refusal = approval("no", run=run, decision="Reject")
    refusal["spec"]["reason"] = "not tonight"
    cluster.apply(refusal, namespace=ns)
    reached = await_phase(cluster, "unwanted", "Failed", namespace=ns)
    assert reached["reason"] == "Rejected"
    assert "not tonight" in reached["message"]
    cluster.apply(approval("too-late", run=run), namespace=ns)
    late = await_condition(cluster, APPROVALS, "too-late", "Accepted", "TooLate", namespace=ns)
    assert late["status"]["accepted"] is False
    assert row(dsn, run)["reason"] == "Rejected"


def test_what_was_approved_before_it_was_asked_for_still_waits(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    run = id_of_request(caller=CALLER, idempotency_key="foreseen")
    cluster.apply(approval("early", run=run), namespace=ns)
    early = await_condition(cluster, APPROVALS, "early", "Accepted", "InvocationNotFound", namespace=ns)
    created = datetime.fromisoformat(early["metadata"]["creationTimestamp"])
    wait_until(lambda: datetime.now(UTC) - created > timedelta(seconds=7), what="the approval to be clearly older")
    submit(dsn, server_request("foreseen", namespace=ns, environment="production", key="foreseen"))
    await_condition(cluster, APPROVALS, "early", "Accepted", "TooEarly", namespace=ns)
    assert (await_phase(cluster, run, "AwaitingApproval", namespace=ns))["phase"] == "AwaitingApproval"
    approve(dsn, run, namespace=ns)
    await_phase(cluster, run, "Succeeded", namespace=ns)


def test_an_approval_of_another_namespace_or_one_that_was_edited_does_not_count(
    cluster: Cluster, dsn: str, ns: str, namespace: str, operator_account: OperatorAccount, running: Daemon
) -> None:
    ask(cluster, "guarded", namespace=ns, dsn=dsn, environment="production")
    run = (await_phase(cluster, "guarded", "AwaitingApproval", namespace=ns))["invocationId"]
    running.stop()
    cluster.apply(approval("flipped", run=run, decision="Reject"), namespace=ns)
    cluster.apply(approval("flipped", run=run, decision="Approve"), namespace=ns)
    cluster.apply(approval("from-elsewhere", run=run), namespace=namespace)
    running.start().wait_ready()
    flipped = await_condition(cluster, APPROVALS, "flipped", "Accepted", "Changed", namespace=ns)
    assert flipped["status"]["accepted"] is False
    assert status(cluster, "guarded", namespace=ns)["phase"] == "AwaitingApproval"
    assert fetch(dsn, "select uid from formulary.invocation_approval where invocation_id = $1", run) == []


@pytest.mark.smoke
async def test_with_the_webhook_it_is_known_who_asked_and_who_approved(
    place: Place, judge: Validator, database: str, operator_account: OperatorAccount
) -> None:
    async with judging(place, judge):
        accepted = await asyncio.to_thread(_asked_by_ada_approved_by_ben, place, database, operator_account)
    assert accepted["status"]["approver"] == "system:serviceaccount:people:ben"
    ((requester, approver),) = await asyncio.to_thread(
        fetch,
        database,
        "select i.requester, a.approver from formulary.invocation i "
        "join formulary.invocation_approval a on a.invocation_id = i.id",
    )
    assert (requester, approver) == ("system:serviceaccount:people:ada", "system:serviceaccount:people:ben")


def _asked_by_ada_approved_by_ben(place: Place, database: str, account: OperatorAccount) -> dict[str, Any]:
    """The approval, once it is accepted. In a thread: the webhook answers in the event loop."""
    plane, namespace = place.plane, place.namespace
    ada, ben = (_person(plane, name, namespace=namespace) for name in ("ada", "ben"))
    with running_operator(plane, remedy(), dsn=database, namespace=namespace, account=account):
        wanted = text(invocation("seen", input=INPUT))
        plane.kubectl("create", f"--namespace={namespace}", "--filename=-", input=wanted, kubeconfig=ada)
        reached = await_phase(plane, "seen", "AwaitingApproval", namespace=namespace)
        answer = text(approval("by-ben", run=reached["invocationId"]))
        plane.kubectl("create", f"--namespace={namespace}", "--filename=-", input=answer, kubeconfig=ben)
        return await_condition(plane, APPROVALS, "by-ben", "Accepted", "Approved", namespace=namespace)


def _person(plane: ControlPlane, name: str, *, namespace: str) -> Path:
    """The kubeconfig of somebody who may do anything in a namespace."""
    token = plane.service_account("people", name, audiences=[])
    role = ["create", "rolebinding", name, "--clusterrole=cluster-admin", f"--serviceaccount=people:{name}"]
    plane.kubectl(*role, f"--namespace={namespace}")
    return plane.kubeconfig_for(token)
