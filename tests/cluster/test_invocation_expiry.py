"""What ended long ago goes from the cluster, with the operator's rights of the chart; what people keep there stays."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from formulary_operator.api.names import INVOCATIONS, SECRETS
from support.cluster import OperatorAccount, fetch, objects
from support.cluster_runs import (
    INPUT,
    ask,
    await_phase,
    incident,
    prove,
    remedy,
    run_object,
    running_operator,
    server_request,
    submit,
)
from support.control_plane import Cluster
from support.job_controller import job_controller
from support.manifest import invocation, text
from support.operator_process import Daemon
from support.waiting import wait_until


@pytest.fixture
def running(cluster: Cluster, database: str, namespace: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator that compares with the cluster each second; Jobs succeed."""
    with (
        running_operator(
            cluster, remedy(), dsn=database, namespace=namespace, account=operator_account, resync_seconds="1"
        ) as daemon,
        job_controller(cluster, namespace),
    ):
        yield daemon


def age(dsn: str, *, days: int) -> None:
    """Let all runs have ended so many days ago, and their outcome have been due then."""
    ended = "now() - make_interval(days => $1)"
    changed = f"finished_at = {ended}, verify_at = case when verify_at is not null then {ended} end"
    fetch(dsn, f"update formulary.invocation set {changed} returning id", days)


def present(cluster: Cluster, namespace: str) -> set[str]:
    return {found["metadata"]["name"] for found in objects(cluster, INVOCATIONS, namespace=namespace)}


def runs(dsn: str) -> set[str]:
    return {name for (name,) in fetch(dsn, "select object_name from formulary.invocation")}


def created(cluster: Cluster, name: str, *, namespace: str, **spec: Any) -> str:
    """Create a WorkflowInvocation under a name that the API server makes up; that name."""
    document = invocation(name, **spec)
    document["metadata"] = {"generateName": f"{name}-"}
    said = cluster.kubectl("create", "-f", "-", f"--namespace={namespace}", "--output=json", input=text(document))
    return str(json.loads(said)["metadata"]["name"])


def generated(cluster: Cluster, dsn: str, *, namespace: str) -> str:
    """Ask for a run under such a name."""
    name = created(cluster, "of-an-alert", namespace=namespace, input=INPUT, remediationId="rr-of-an-alert")
    prove(dsn, run_object(cluster, name, namespace=namespace)["metadata"]["uid"], namespace=namespace, name=name)
    cluster.apply(incident("of-an-alert", namespace=namespace), namespace=namespace)
    return name


def test_objects_go_first_and_then_their_rows_but_never_those_that_people_named(
    cluster: Cluster, database: str, namespace: str, running: Daemon
) -> None:
    agents = submit(database, server_request(namespace=namespace, secret={"TOKEN": "hunter2"}))
    ask(cluster, "named", namespace=namespace, dsn=database)
    made_up = generated(cluster, database, namespace=namespace)
    for name in (agents.id, "named", made_up):
        await_phase(cluster, name, "Succeeded", namespace=namespace)
    owned = [
        secret["metadata"]["ownerReferences"][0]["name"]
        for secret in objects(cluster, SECRETS, namespace=namespace)
        if agents.id in secret["metadata"]["name"]
    ]
    assert owned == [agents.id], "the Secret goes with the object"

    age(database, days=8)
    wait_until(
        lambda: (
            {found["metadata"]["name"] for found in objects(cluster, INVOCATIONS, namespace=namespace)} == {"named"}
        ),
        what="old objects to go",
        shown=running.output,
    )
    assert runs(database) == {agents.id, "named", made_up}, "rows stay longer"

    age(database, days=91)
    wait_until(lambda: runs(database) == {"named"}, what="old rows to go", shown=running.output)
    assert run_object(cluster, "named", namespace=namespace)["status"]["phase"] == "Succeeded"
    assert running.metric("formulary_expired_total", kind="object") == 2
    assert running.metric("formulary_expired_total", kind="run") == 2


def test_an_object_that_became_no_run_expires_by_its_own_time_and_one_that_was_exported_never(
    cluster: Cluster, database: str, namespace: str, running: Daemon
) -> None:
    refused = created(cluster, "typo", namespace=namespace, workflow="no-such-workflow")
    await_phase(cluster, refused, "Failed", namespace=namespace)
    exported = run_object(cluster, generated(cluster, database, namespace=namespace), namespace=namespace)
    kept = exported["metadata"]["name"]
    await_phase(cluster, kept, "Succeeded", namespace=namespace)
    repeated = {key: exported[key] for key in ("apiVersion", "kind", "spec")}  # its status goes on, and is another's
    repeated["metadata"] = {key: exported["metadata"][key] for key in ("name", "generateName")}
    cluster.kubectl("apply", "--server-side", "-f", "-", f"--namespace={namespace}", input=text(repeated))

    age(database, days=8)
    ended = run_object(cluster, refused, namespace=namespace)["status"]["conditions"]
    old = [{**condition, "lastTransitionTime": "2020-01-01T00:00:00Z"} for condition in ended]
    patch = json.dumps({"status": {"conditions": old}})
    place = (f"--namespace={namespace}", "--type=merge", "--subresource=status")
    cluster.kubectl("patch", "wfi", refused, *place, f"--patch={patch}")
    wait_until(lambda: refused not in present(cluster, namespace), what="the refused one to go", shown=running.output)
    assert kept in present(cluster, namespace)


def test_an_object_that_may_not_be_deleted_holds_up_no_other_one(
    cluster: Cluster, database: str, namespace: str, running: Daemon
) -> None:
    held, other = (submit(database, server_request(name, namespace=namespace)).id for name in ("held", "other"))
    for name in (held, other):
        await_phase(cluster, name, "Succeeded", namespace=namespace)
    place = (f"--namespace={namespace}", "--type=merge")
    cluster.kubectl("patch", "wfi", held, *place, '--patch={"metadata":{"finalizers":["example.com/held"]}}')

    age(database, days=8)
    wait_until(lambda: other not in present(cluster, namespace), what="the other to go", shown=running.output)
    wait_until(
        lambda: "deletionTimestamp" in run_object(cluster, held, namespace=namespace)["metadata"],
        what="the held one to be asked to go",
    )
    resyncs = len(running.events("resynced"))
    wait_until(lambda: len(running.events("resynced")) > resyncs + 2, what="two more resyncs")
    assert running.metric("formulary_expired_total", kind="object") == 2, "each is counted once"
    cluster.kubectl("patch", "wfi", held, *place, '--patch={"metadata":{"finalizers":null}}')
