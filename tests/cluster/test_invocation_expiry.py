"""What ended long ago goes from the cluster, with the operator's rights of the chart; what people keep there stays."""

from collections.abc import Iterator

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
    """Let all runs have ended so many days ago."""
    fetch(dsn, "update formulary.invocation set finished_at = now() - make_interval(days => $1) returning id", days)


def runs(dsn: str) -> set[str]:
    return {name for (name,) in fetch(dsn, "select object_name from formulary.invocation")}


def generated(cluster: Cluster, dsn: str, *, namespace: str) -> str:
    """Ask for a run under a name that the API server makes up; that name."""
    document = invocation("of-an-alert", input=INPUT, remediationId="rr-of-an-alert")
    document["metadata"] = {"generateName": "of-an-alert-"}
    cluster.kubectl("create", "-f", "-", f"--namespace={namespace}", input=text(document))
    (name,) = (
        str(found["metadata"]["name"])
        for found in objects(cluster, INVOCATIONS, namespace=namespace)
        if found["metadata"].get("generateName")
    )
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
