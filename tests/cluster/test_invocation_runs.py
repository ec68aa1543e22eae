"""Runs on a real API server: asked for by agents or with kubectl, carried out by Jobs, told in statuses and rows."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
import yaml

from formulary_catalog.domain.runs.run import UNPROVEN_USER, id_of_object
from formulary_operator.api.names import INVOCATIONS, SECRETS
from support.cluster import OperatorAccount, condition, fetch, objects
from support.cluster_runs import (
    CALLER,
    EVERYWHERE,
    IMAGE,
    INPUT,
    ask,
    await_phase,
    created_jobs,
    job,
    kinds,
    remedy,
    row,
    run_object,
    running_operator,
    server_request,
    status,
    submit,
)
from support.control_plane import Cluster, ControlPlane
from support.job_controller import EXPIRES, FAILS, NOT_PULLED, JobController, job_controller
from support.kinds import set_status
from support.manifest import invocation
from support.operator_process import Daemon, operator
from support.waiting import wait_until

GREEDY = {
    "engine": "job",
    "bundle": IMAGE,
    "engineConfig": {"resources": {"limits": {"memory": "1Mi"}, "requests": {"memory": "2Mi"}}},
}
CATALOG = (
    remedy(),
    remedy("kept-back", suspend=True),
    remedy("told-only", parameters=[]),
    remedy("only-production", labels={**EVERYWHERE, "environment": ["production"]}),
    remedy("greedy", execution=GREEDY),
)


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator with the remedies in its catalog."""
    with running_operator(
        cluster,
        *CATALOG,
        dsn=dsn,
        namespace=ns,
        account=operator_account,
        engines="job,tekton",
        tekton_bundles="true",
        argo_templates="true",
    ) as daemon:
        yield daemon


@pytest.fixture
def jobs(cluster: Cluster, ns: str) -> Iterator[JobController]:
    """Jobs succeed, while a test lasts."""
    with job_controller(cluster, ns) as controller:
        yield controller


def events_of(cluster: Cluster, name: str, *, namespace: str) -> list[tuple[str, str]]:
    found = cluster.get("events", f"--namespace={namespace}")["items"]
    return [(event["type"], event["reason"]) for event in found if event["involvedObject"]["name"] == name]


@pytest.mark.smoke
def test_what_the_server_was_asked_for_is_run_by_a_job_and_its_outputs_come_back(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    asked = submit(dsn, server_request("asked", namespace=ns))
    reached = await_phase(cluster, asked.id, "Succeeded", namespace=ns)
    assert reached["outputs"] == {"restarted": ["checkout-1"]}
    assert reached["executionRef"]["kind"] == "Job"
    assert (reached["invocationId"], reached["traceId"], reached["reason"]) == (asked.id, "rr-asked", "Completed")
    document = run_object(cluster, asked.id, namespace=ns)
    assert [condition(document, kind)["status"] for kind in ("Accepted", "Approved", "Complete")] == ["True"] * 3
    assert (document["spec"]["requester"], document["spec"]["workflowRef"]["workflowId"]) == (CALLER, "restart")
    made = job(cluster, asked.id, namespace=ns)
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (document["metadata"]["uid"], True)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert {"name": "REPLICAS", "value": "2"} in container["env"]
    stored = row(dsn, asked.id)
    assert (stored["phase"], stored["object_uid"]) == ("Succeeded", document["metadata"]["uid"])
    assert kinds(dsn, "rr-asked")[-2:] == ["invocation.started", "invocation.finished"]
    assert ("Normal", "Completed") in events_of(cluster, asked.id, namespace=ns)
    assert running.metric("formulary_runs_ended_total", phase="Succeeded") >= 1


@pytest.mark.smoke
def test_what_somebody_creates_with_kubectl_is_run_under_the_same_rules(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    ask(cluster, "by-hand", namespace=ns, dsn=dsn)
    reached = await_phase(cluster, "by-hand", "Succeeded", namespace=ns)
    document = run_object(cluster, "by-hand", namespace=ns)
    assert reached["invocationId"] == id_of_object(document["metadata"]["uid"])
    assert reached["outputs"] == {"restarted": ["checkout-1"]}
    ((requester, target),) = fetch(
        dsn,
        "select requester, target ->> 'name' from formulary.invocation where id = $1",
        reached["invocationId"],
    )
    assert (requester, target) == ("admin", "by-hand")


def test_a_run_outside_of_any_incident_awaits_an_approval(
    cluster: Cluster, ns: str, running: Daemon, jobs: JobController
) -> None:
    cluster.apply(invocation("unplaced", input=INPUT), namespace=ns)
    reached = await_phase(cluster, "unplaced", "AwaitingApproval", namespace=ns)
    assert "environment is not known" in reached["message"]
    document = run_object(cluster, "unplaced", namespace=ns)
    assert condition(document, "Approved")["status"] == "Unknown"
    assert job(cluster, reached["invocationId"], namespace=ns) == {}


REFUSED: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "too-few": ({"input": {"REPLICAS": 0}}, "InputInvalid", "must be at least 1"),
    "misspelt": ({"input": {"REPLICA": 2}}, "InputInvalid", "unknown"),
    "open-secret": ({"input": {**INPUT, "TOKEN": "hush"}}, "InputInvalid", "is sensitive"),
    "absent": ({"workflowRef": {"workflowId": "nothing-like-it"}}, "WorkflowNotFound", "no workflow nothing-like-it"),
    "forged": ({"workflowRef": {"workflowId": "restart", "snapshot": {"a": 1}}}, "InputInvalid", "snapshot"),
    "suspended": ({"workflowRef": {"workflowId": "kept-back@1.0.0"}}, "NotInvocable", "suspended"),
    "schemaless": ({"workflowRef": {"workflowId": "told-only"}}, "NotInvocable", "parameters"),
    "unknown-incident": ({"remediationId": "rr-of-nobody"}, "InputInvalid", "is unknown"),
    "other-target": ({"target": {"kind": "Node", "name": "a"}}, "InputInvalid", "is not what incident"),
    "no-search": ({"searchId": "7e57d004-2b97-4e7a-b45f-5387367791cd"}, "InputInvalid", "no recorded search"),
}
"""Requests that cannot become runs: what is asked for, and what is told."""


def test_a_request_that_cannot_become_a_run_is_told_why_and_left_alone(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    for name, (spec, _, _) in REFUSED.items():
        ask(cluster, name, namespace=ns, dsn=dsn, **spec)
    for name, (_, reason, words) in REFUSED.items():
        reached = await_phase(cluster, name, "Failed", namespace=ns)
        assert (name, reached["reason"]) == (name, reason)
        assert words in reached["message"]
        assert "hush" not in reached["message"]
        assert condition(run_object(cluster, name, namespace=ns), "Accepted")["status"] == "False"
    kept = "select object_name from formulary.invocation where object_name = any ($1)"
    assert fetch(dsn, kept, list(REFUSED)) == []


def test_a_search_for_another_target_is_no_evidence_where_the_operator_reads_no_targets_either(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    search = str(uuid4())
    said = {"caller": UNPROVEN_USER, "search_id": search, "target": f"{ns}/Deployment/searched", "outcome": "ok"}
    fetch(dsn, "select formulary.append_trace($1, 'search', $2)", f"tr_{search}", json.dumps(said))
    for name in ("searched", "not-searched"):
        about: dict[str, Any] = {"target": {"kind": "deployment", "name": name}, "searchId": search}
        cluster.apply(invocation(name, input=INPUT, **about), namespace=ns)

    await_phase(cluster, "searched", "AwaitingApproval", namespace=ns)
    refused = await_phase(cluster, "not-searched", "Failed", namespace=ns)
    assert (refused["reason"], "no recorded search" in refused["message"]) == ("InputInvalid", True)


def test_the_constraints_of_the_incident_hold_for_kubectl_as_well(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    ask(cluster, "elsewhere", namespace=ns, dsn=dsn, workflowRef={"workflowId": "only-production"})
    reached = await_phase(cluster, "elsewhere", "Failed", namespace=ns)
    assert reached["reason"] == "Denied"
    assert "labels of the incident" in reached["message"]


def test_a_run_that_fails_says_what_it_said_last(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    jobs.ends = lambda job: FAILS
    ask(cluster, "unlucky", namespace=ns, dsn=dsn)
    reached = await_phase(cluster, "unlucky", "Failed", namespace=ns)
    assert reached["reason"] == "RunFailed"
    assert "step restart failed with exit code 3" in reached["message"]
    assert ("Warning", "RunFailed") in events_of(cluster, "unlucky", namespace=ns)


def test_a_run_whose_job_runs_out_of_time_timed_out(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    jobs.ends = lambda job: EXPIRES
    ask(cluster, "slow", namespace=ns, dsn=dsn)
    reached = await_phase(cluster, "slow", "TimedOut", namespace=ns)
    assert reached["reason"] == "DeadlineExceeded"


def test_a_run_whose_image_cannot_be_pulled_says_so_while_it_waits_and_when_its_time_is_over(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    jobs.ends, jobs.waits = lambda job: None, "ErrImagePull"
    ask(cluster, "imageless", namespace=ns, dsn=dsn)
    started = await_phase(cluster, "imageless", "Running", namespace=ns)

    def stands() -> tuple[str, str]:
        found = row(dsn, started["invocationId"])
        return found["phase"], found["reason"]

    wait_until(lambda: stands() == ("Running", "ImageNotPulled"), what="the image to be missed")
    jobs.waits = "ContainerCreating"
    wait_until(lambda: stands() == ("Running", "Started"), what="the image to be there")
    jobs.waits = "ImagePullBackOff"
    wait_until(lambda: stands() == ("Running", "ImageNotPulled"), what="the image to be missed again")
    jobs.ends, jobs.waits = lambda job: NOT_PULLED, ""
    reached = await_phase(cluster, "imageless", "TimedOut", namespace=ns)
    assert reached["reason"] == "ImageNotPulled"
    assert "its image cannot be pulled: ImagePullBackOff" in reached["message"]


def test_what_was_last_known_of_an_image_outlives_its_pod(
    control_plane: ControlPlane, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    jobs.ends, jobs.waits = lambda job: None, "ErrImagePull"
    ask(control_plane, "podless", namespace=ns, dsn=dsn)
    run = await_phase(control_plane, "podless", "Running", namespace=ns)["invocationId"]
    wait_until(lambda: row(dsn, run)["reason"] == "ImageNotPulled", what="the image to be missed")
    jobs.waits = ""
    control_plane.kubectl("delete", "pod", f"{run}-pod", f"--namespace={ns}", "--force", "--grace-period=0")

    def looks() -> int:
        return len(control_plane.requests(verbs=["list"], resource="pods"))

    before = looks()
    wait_until(lambda: looks() >= before + 3, what="the operator to look for pods")
    assert row(dsn, run)["reason"] == "ImageNotPulled"


def test_a_run_that_nobody_ends_is_ended_after_its_deadline_and_its_job_is_deleted(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    ask(cluster, "stuck", namespace=ns, dsn=dsn, timeoutSeconds=2)
    started = await_phase(cluster, "stuck", "Running", namespace=ns)
    assert job(cluster, started["invocationId"], namespace=ns)["spec"]["activeDeadlineSeconds"] <= 2
    reached = await_phase(cluster, "stuck", "TimedOut", namespace=ns)
    assert "after the timeout of 2 s" in reached["message"]
    assert job(cluster, reached["invocationId"], namespace=ns) == {}


@pytest.mark.smoke
def test_deleting_the_object_cancels_the_run_and_deletes_its_job(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("deleted", namespace=ns))
    await_phase(cluster, asked.id, "Running", namespace=ns)
    wait_until(lambda: job(cluster, asked.id, namespace=ns), what="the Job")
    cluster.kubectl("delete", "wfi", asked.id, f"--namespace={ns}")
    wait_until(lambda: row(dsn, asked.id)["phase"] == "Cancelled", what="the run to be cancelled")
    assert job(cluster, asked.id, namespace=ns) == {}
    assert kinds(dsn, "rr-deleted")[-1] == "invocation.cancelled"
    assert run_object(cluster, asked.id, namespace=ns) == {}


@pytest.mark.smoke
def test_a_dry_run_is_checked_by_the_api_server_and_leaves_nothing(
    control_plane: ControlPlane, dsn: str, ns: str, running: Daemon
) -> None:
    ask(control_plane, "rehearsal", namespace=ns, dsn=dsn, dryRun=True)
    reached = await_phase(control_plane, "rehearsal", "Succeeded", namespace=ns)
    assert reached["reason"] == "DryRun"
    assert reached["outputs"]["manifest"]["metadata"]["name"] == reached["invocationId"]
    assert job(control_plane, reached["invocationId"], namespace=ns) == {}


def test_a_dry_run_that_the_api_server_would_refuse_fails_in_its_words(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    ask(cluster, "refused", namespace=ns, dsn=dsn, dryRun=True, workflowRef={"workflowId": "greedy"})
    reached = await_phase(cluster, "refused", "Failed", namespace=ns)
    assert reached["reason"] == "StartFailed"
    assert "must be less than or equal to memory limit" in reached["message"]


def test_sensitive_values_reach_the_run_in_a_secret_and_are_kept_nowhere_else(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    asked = submit(dsn, server_request("sensitive", namespace=ns, secret={"TOKEN": "hush"}))
    await_phase(cluster, asked.id, "Succeeded", namespace=ns)
    (secret,) = [s for s in objects(cluster, SECRETS, namespace=ns) if s["metadata"]["name"].startswith(asked.id)]
    assert base64.b64decode(secret["data"]["TOKEN"]) == b"hush"
    document = run_object(cluster, asked.id, namespace=ns)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == document["metadata"]["uid"]
    assert "hush" not in str(document) + str(job(cluster, asked.id, namespace=ns)) + running.output()
    assert fetch(dsn, "select * from formulary.invocation_secret") == []
    for table in ("invocation", "trace_event"):
        assert "hush" not in str(fetch(dsn, f"select t::text from formulary.{table} t"))


def test_a_run_in_a_namespace_that_is_gone_fails_and_says_so(
    database: str, namespace: str, operator_account: OperatorAccount
) -> None:
    with operator(dsn=database, kubeconfig=operator_account.kubeconfig, catalog_namespace=namespace) as daemon:
        daemon.start().wait_ready()
        asked = submit(database, server_request(namespace=f"{namespace}-lost"))
        wait_until(lambda: row(database, asked.id)["phase"] == "Failed", what="the run to fail", shown=daemon.output)
    assert row(database, asked.id)["reason"] == "NamespaceNotFound"


def test_an_engine_that_the_cluster_lacks_is_named(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    execution = {"engine": "tekton", "engineConfig": {"pipelineRef": "restart"}}
    asked = submit(dsn, server_request("engineless", namespace=ns, manifest=remedy(execution=execution)))
    reached = await_phase(cluster, asked.id, "Failed", namespace=ns)
    assert reached["reason"] == "EngineUnavailable"
    assert "PipelineRun" in reached["message"]
    assert fetch(dsn, "select engines from formulary.executor") == [(["job"],)]


def test_an_engine_that_is_not_enabled_is_named(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    execution = {"engine": "argo", "engineConfig": {"workflowTemplate": "restart"}}
    asked = submit(dsn, server_request("disabled", namespace=ns, manifest=remedy(execution=execution)))
    reached = await_phase(cluster, asked.id, "Failed", namespace=ns)
    assert reached["reason"] == "EngineUnavailable"
    assert "needs the engine argo, which is not enabled here; enabled are job, tekton" in reached["message"]


def test_a_run_in_a_namespace_that_no_operator_watches_is_refused_after_a_minute(
    dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("unwatched", namespace=f"{ns}-elsewhere"))
    older = "update formulary.invocation set created_at = now() - interval '2 minutes' where id = $1 returning id"
    assert fetch(dsn, older, asked.id) == [(asked.id,)]
    wait_until(lambda: row(dsn, asked.id)["phase"] == "Failed", what="the run to fail", shown=running.output)
    assert "no operator watches namespace" in row(dsn, asked.id)["message"]


def test_what_somebody_writes_into_the_object_later_changes_nothing(
    cluster: Cluster, dsn: str, ns: str, running: Daemon, jobs: JobController
) -> None:
    jobs.ends = lambda job: None
    ask(cluster, "edited", namespace=ns, dsn=dsn)
    reached = await_phase(cluster, "edited", "Running", namespace=ns)
    patch = '{"spec":{"input":{"REPLICAS":9},"dryRun":true}}'
    cluster.kubectl("patch", "wfi", "edited", f"--namespace={ns}", "--type=merge", f"--patch={patch}")
    wait_until(
        lambda: condition(run_object(cluster, "edited", namespace=ns), "Accepted").get("reason") == "ChangeIgnored",
        what="the change to be told",
    )
    set_status(cluster, INVOCATIONS, "edited", namespace=ns, status={"phase": "Succeeded", "message": "forged"})
    wait_until(lambda: status(cluster, "edited", namespace=ns).get("phase") == "Running", what="the truth to be told")
    jobs.ends = lambda job: FAILS
    await_phase(cluster, "edited", "Failed", namespace=ns)
    assert row(dsn, reached["invocationId"])["reason"] == "RunFailed"


def test_a_job_that_was_there_before_is_not_taken_for_the_run(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    new = server_request("taken", namespace=ns, key="once")
    cluster.apply(_foreign_job(new.id), namespace=ns)
    asked = submit(dsn, new)
    reached = await_phase(cluster, asked.id, "Failed", namespace=ns)
    assert reached["reason"] == "StartFailed"
    assert "belongs to something else" in reached["message"]


def test_a_job_that_somebody_deletes_is_not_made_again(
    control_plane: ControlPlane, dsn: str, ns: str, running: Daemon
) -> None:
    asked = submit(dsn, server_request("lost-job", namespace=ns))
    noted = "select id from formulary.invocation where id = $1 and reference <> '{}'"
    wait_until(lambda: fetch(dsn, noted, asked.id), what="the run to be under way")
    control_plane.kubectl("delete", "job", asked.id, f"--namespace={ns}")
    reached = await_phase(control_plane, asked.id, "Failed", namespace=ns)
    assert "somebody deleted it" in reached["message"]
    assert created_jobs(control_plane.requests(), namespace=ns).count(asked.id) == 1


def test_an_object_with_the_name_of_a_servers_run_is_no_request(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    name = "inv-0123456789abcdef0123"
    ask(cluster, name, namespace=ns, dsn=dsn)
    reached = await_phase(cluster, name, "Failed", namespace=ns)
    assert reached["reason"] == "InputInvalid"
    assert fetch(dsn, "select id from formulary.invocation where object_name = $1", name) == []


def _foreign_job(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(
        f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: {name}}}
        spec:
          template:
            spec: {{restartPolicy: Never, containers: [{{name: a, image: {IMAGE}}}]}}
        """
    )
    return loaded
