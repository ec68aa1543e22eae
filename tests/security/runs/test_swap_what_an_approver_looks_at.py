"""An attacker shows an approver one thing and has another one run, or passes for somebody else."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.errors import InvalidInput
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_operator.api.names import APPROVALS, INVOCATIONS
from formulary_operator.runs.plan import digest_of
from support.cluster import OperatorAccount, condition, fetch, objects
from support.cluster_runs import (
    IMAGE,
    INPUT,
    approve,
    ask,
    await_phase,
    created_jobs,
    job,
    remedy,
    running_operator,
    server_request,
    submit,
)
from support.control_plane import Cluster, ControlPlane
from support.manifest import approval
from support.operator_process import Daemon
from support.runs import HARMLESS, request
from support.waiting import wait_until

PERSON = Caller(name="ada", access=EVERYTHING)
SAFE = "registry.example/remedies/safe:1.0.0"
REMEDY = remedy(
    execution={"engine": "job", "bundle": IMAGE, "serviceAccountName": "healer"},
    dependencies={"secrets": [{"name": "shop-keys"}], "configMaps": [{"name": "shop-config"}]},
)

PLAIN = remedy("plain")
"""One that needs nothing that its owner would have to release."""


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, shared_namespace: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    with running_operator(
        cluster, REMEDY, PLAIN, dsn=dsn, namespace=shared_namespace, account=operator_account
    ) as daemon:
        yield daemon


def _answer(cluster: Cluster, name: str, *, namespace: str) -> dict[str, Any]:
    """The condition Accepted of an approval once it has one."""

    def found() -> dict[str, Any]:
        named = [each for each in objects(cluster, APPROVALS, namespace=namespace) if each["metadata"]["name"] == name]
        return named[0] if named and named[0].get("status") else {}

    wait_until(lambda: bool(found()), what=f"an answer to {name}", seconds=30)
    return condition(found(), "Accepted")


@pytest.mark.smoke
def test_a_waiting_run_shows_all_that_it_would_run_and_hides_what_is_sensitive(
    cluster: Cluster, dsn: str, shared_namespace: str, running: Daemon
) -> None:
    ns = shared_namespace
    asked = server_request("shown", namespace=ns, environment="production", secret={"TOKEN": "hush"}, manifest=REMEDY)
    run = submit(dsn, asked)
    told = await_phase(cluster, run.id, "AwaitingApproval", namespace=ns)
    content = told["content"]
    assert content["versionId"] == run.version_id
    assert (content["images"], content["serviceAccount"], content["kind"]) == ([IMAGE], "healer", "Job")
    assert (content["secrets"], content["configMaps"]) == (["shop-keys"], ["shop-config"])
    assert content["parameters"] == {"REPLICAS": 2, "TOKEN": "(hidden)"}
    assert content["steps"] == [{"name": "restart", "command": "echo ${REPLICAS}"}]
    assert content["digest"].startswith("sha256:")
    assert "manifest" not in content
    ((stored,),) = fetch(dsn, "select content ->> 'manifest' from formulary.invocation where id = $1", run.id)
    manifest = json.loads(stored)
    assert digest_of(manifest) == content["digest"]
    assert manifest["spec"]["template"]["spec"]["serviceAccountName"] == "healer"
    assert "hush" not in json.dumps(manifest)
    assert "hush" not in json.dumps(told)
    wide = cluster.kubectl("get", INVOCATIONS.plural, run.id, f"--namespace={ns}", "--output=wide")
    assert content["digest"] in wide
    assert "healer" in wide
    assert content["digest"] in cluster.kubectl("describe", INVOCATIONS.plural, run.id, f"--namespace={ns}")


def test_a_changed_spec_changes_neither_what_is_shown_nor_what_runs(
    control_plane: ControlPlane, dsn: str, shared_namespace: str, running: Daemon
) -> None:
    cluster, ns = control_plane, shared_namespace
    plain = {"workflowId": "plain"}
    ask(cluster, "swapped", namespace=ns, environment="production", requester="alice", workflowRef=plain)
    told = await_phase(cluster, "swapped", "AwaitingApproval", namespace=ns)
    other = {"spec": {"workflowRef": {**plain, "snapshot": {"bundle": SAFE}}, "input": {"REPLICAS": 1}}}
    patch = f"--patch={json.dumps(other)}"
    cluster.kubectl("patch", INVOCATIONS.plural, "swapped", f"--namespace={ns}", "--type=merge", patch)
    wrong = approval("wrong", run=told["invocationId"])
    wrong["spec"]["digest"] = f"sha256:{'0' * 64}"
    cluster.apply(wrong, namespace=ns)
    assert _answer(cluster, "wrong", namespace=ns)["reason"] == "OtherContent"
    still = await_phase(cluster, "swapped", "AwaitingApproval", namespace=ns)
    assert still["content"] == told["content"]
    assert told["invocationId"] not in created_jobs(control_plane.requests(), namespace=ns)
    approve(dsn, told["invocationId"], namespace=ns, digest=told["content"]["digest"])
    await_phase(cluster, "swapped", "Running", namespace=ns)
    wait_until(lambda: bool(job(cluster, told["invocationId"], namespace=ns)), what="the Job", seconds=30)
    (container,) = job(cluster, told["invocationId"], namespace=ns)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert {"name": "REPLICAS", "value": str(INPUT["REPLICAS"])} in container["env"]


def test_a_requester_that_nobody_proved_is_shown_as_unproven_whatever_the_object_says(
    cluster: Cluster, shared_namespace: str, running: Daemon
) -> None:
    ask(cluster, "alice-says-mallory", namespace=shared_namespace, environment="production", requester="alice")
    told = await_phase(cluster, "alice-says-mallory", "AwaitingApproval", namespace=shared_namespace)
    assert told["requester"] == "unproven"
    place = f"--namespace={shared_namespace}"
    wide = cluster.kubectl("get", INVOCATIONS.plural, "alice-says-mallory", place, "--output=wide")
    assert "unproven" in wide


CONTENT = {"digest": "sha256:" + "a" * 64, "images": [SAFE]}
OTHER = {"digest": "sha256:" + "b" * 64, "images": ["registry.example/evil:1"]}


@pytest.mark.parametrize("named", [True, False])
async def test_what_would_run_after_a_change_waits_for_another_approval(named: bool, writing: Database) -> None:
    runs, approvals = RunWriter(writing, shared_namespace="formulary"), ApprovalStore(writing)
    run = (await runs.submit(request(facts=replace(HARMLESS, environment="production")))).invocation
    await runs.begin(run.id, content=CONTENT)
    digest = str(CONTENT["digest"]) if named else ""
    given = NewApproval(invocation_id=run.id, namespace="shop", decision="Approve", approver="ada", digest=digest)
    await approvals.add(given)
    changed = await runs.begin(run.id, content=OTHER)
    assert changed is not None
    assert changed.phase is Phase.AWAITING_APPROVAL
    assert "other content" in changed.message
    again = await runs.begin(run.id, content=CONTENT)
    assert again is not None
    assert again.phase is Phase.RUNNING


async def test_an_approval_that_came_before_anything_was_shown_counts_for_what_is_rendered_next(
    writing: Database,
) -> None:
    runs, approvals = RunWriter(writing, shared_namespace="formulary"), ApprovalStore(writing)
    run = (await runs.submit(request(facts=replace(HARMLESS, environment="production")))).invocation
    await approvals.add(NewApproval(invocation_id=run.id, namespace="shop", decision="Approve", approver="ada"))
    begun = await runs.begin(run.id, content=CONTENT)
    assert begun is not None
    assert begun.phase is Phase.RUNNING


@pytest.mark.smoke
async def test_over_rest_an_approval_names_what_it_is_of_and_a_rejection_needs_no_digest(
    parts: CatalogParts, writing: Database
) -> None:
    runs = RunWriter(writing, shared_namespace="formulary")
    run = (await runs.submit(request(facts=replace(HARMLESS, environment="production")))).invocation
    await runs.begin(run.id, content=CONTENT)
    invocations = Services.on(parts, settings=Settings()).invocations
    with pytest.raises(InvalidInput, match="is not that of the content"):
        await invocations.approve(
            run.id, decision=ApprovalDecision.APPROVE, reason="", caller=PERSON, digest=str(OTHER["digest"])
        )
    shown = await invocations.status(run.id, caller=PERSON)
    assert (shown.content, shown.state) == (CONTENT, "awaiting_approval")
    await invocations.approve(
        run.id, decision=ApprovalDecision.APPROVE, reason="", caller=PERSON, digest=str(CONTENT["digest"])
    )
    begun = await runs.begin(run.id, content=CONTENT)
    assert begun is not None
    assert begun.phase is Phase.RUNNING
