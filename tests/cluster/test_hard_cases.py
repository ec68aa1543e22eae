"""What people and controllers do to an operator at the worst moment."""

import json
from collections.abc import AsyncIterator, Iterator

import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.api.names import WORKFLOWS
from support import databases
from support.cluster import OperatorAccount, apply_many, await_agreement, condition, fetch
from support.control_plane import Cluster
from support.manifest import analysis, workflow
from support.operator_process import Daemon, operator
from support.waiting import wait_until


@pytest.fixture
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with databases.migrated_database(postgres) as dsn:
        yield dsn


@pytest.fixture
def daemon(dsn: str, operator_account: OperatorAccount, namespace: str) -> Iterator[Daemon]:
    """An operator for the namespace of one test, which resyncs only when something asks for it."""
    with operator(
        dsn=dsn, kubeconfig=operator_account.kubeconfig, watch_namespaces=namespace, resync_seconds="3600"
    ) as daemon:
        daemon.start().wait_ready()
        yield daemon


def active(dsn: str) -> dict[str, str]:
    """The versions that are served, by name."""
    return {
        str(row[0]): str(row[1])
        for row in fetch(
            dsn,
            "select name, version from formulary.workflow_version "
            "join formulary.workflow_search using (version_id, name) where leading_row",
        )
    }


def reason(cluster: Cluster, name: str, *, namespace: str) -> str:
    return str(condition(cluster.get("rw", name, f"--namespace={namespace}")).get("reason", ""))


def test_an_object_nested_without_end_is_refused_by_itself_and_holds_up_nobody(
    cluster: Cluster, namespace: str, dsn: str, daemon: Daemon
) -> None:
    endless = workflow("endless")
    endless["spec"]["execution"]["engineConfig"] = "HERE"
    nested = '{"a":' * 5_000 + "{}" + "}" * 5_000
    body = json.dumps(endless).replace('"HERE"', nested)
    cluster.kubectl("create", "--raw", WORKFLOWS.path(namespace=namespace), "--filename=-", input=body)
    cluster.apply(workflow("plain"), namespace=namespace)
    wait_until(lambda: active(dsn) == {"plain": "1.0.0"}, what="the plain one", shown=daemon.output)
    warned = "--field-selector=involvedObject.name=endless"
    wait_until(
        lambda: "is nested deeper than 100 levels" in cluster.kubectl("get", "events", warned, f"-n{namespace}"),
        what="the endless one to be refused",
        shown=daemon.output,
    )
    daemon.stop()
    daemon.start().wait_ready()
    assert daemon.events("resync_crashed") == []


def test_suspending_stops_a_workflow_whatever_else_is_wrong_with_it(
    cluster: Cluster, namespace: str, dsn: str, daemon: Daemon
) -> None:
    cluster.apply(workflow("edited"), workflow("spoilt"), namespace=namespace)
    wait_until(lambda: len(active(dsn)) == 2, what="both to be served", shown=daemon.output)
    spoilt = workflow("spoilt", suspend=True)
    spoilt["spec"]["labels"]["severity"] = 1
    cluster.apply(workflow("edited", what="Something else.", suspend=True), spoilt, namespace=namespace)
    wait_until(lambda: active(dsn) == {}, what="neither to be served", shown=daemon.output)
    wait_until(lambda: reason(cluster, "edited", namespace=namespace) == "VersionImmutable", what="the reason")
    found = condition(cluster.get("rw", "spoilt", f"--namespace={namespace}"))
    assert "version 1.0.0 stays suspended" in str(found["message"])


def test_a_name_that_is_taken_again_by_a_refused_object_serves_nothing_of_the_old_one(
    cluster: Cluster, namespace: str, dsn: str, daemon: Daemon
) -> None:
    cluster.apply(workflow("replaced"), namespace=namespace)
    wait_until(lambda: active(dsn) == {"replaced": "1.0.0"}, what="it to be served", shown=daemon.output)
    daemon.stop()
    cluster.kubectl("delete", "rw", "replaced", f"--namespace={namespace}")
    wrong = workflow("replaced")
    wrong["spec"]["labels"]["severity"] = 1
    cluster.apply(wrong, namespace=namespace)
    daemon.start().wait_ready()
    assert active(dsn) == {}
    assert reason(cluster, "replaced", namespace=namespace) == "Invalid"


def test_a_name_that_is_taken_again_may_have_any_content_under_the_same_version(
    cluster: Cluster, namespace: str, dsn: str, daemon: Daemon
) -> None:
    cluster.apply(workflow("anew", what="Restarts it."), namespace=namespace)
    wait_until(lambda: active(dsn) == {"anew": "1.0.0"}, what="it to be served", shown=daemon.output)
    daemon.stop()
    cluster.kubectl("delete", "rw", "anew", f"--namespace={namespace}")
    cluster.apply(workflow("anew", what="Scales it."), namespace=namespace)
    daemon.start().wait_ready()
    assert reason(cluster, "anew", namespace=namespace) == "Served"
    await_agreement(cluster, dsn, namespace)


def test_refused_objects_are_no_drift(cluster: Cluster, namespace: str, dsn: str, daemon: Daemon) -> None:
    wrong = workflow("wrong")
    wrong["spec"]["labels"]["severity"] = 1
    cluster.apply(workflow("fixed"), wrong, namespace=namespace)
    wait_until(lambda: active(dsn) == {"fixed": "1.0.0"}, what="the good one", shown=daemon.output)
    cluster.apply(workflow("fixed", what="Something else."), namespace=namespace)
    wait_until(lambda: reason(cluster, "fixed", namespace=namespace) == "VersionImmutable", what="the refusal")
    wait_until(lambda: reason(cluster, "wrong", namespace=namespace) == "Invalid", what="the other refusal")
    daemon.stop()
    daemon.start().wait_ready()
    assert daemon.metric("formulary_drift_objects", kind="remediationworkflows") == 0
    assert daemon.metric("formulary_status_patches_total") == 0


def test_an_incident_does_not_wait_behind_a_hundred_new_workflows(
    cluster: Cluster, namespace: str, dsn: str, daemon: Daemon
) -> None:
    apply_many(
        cluster, [workflow(f"bulk-{number:03}", what=f"Bulk {number}.") for number in range(100)], namespace=namespace
    )
    incident = analysis("incident", remediation_id="rr-now")
    incident["metadata"]["namespace"] = namespace
    cluster.apply(incident, namespace=namespace)
    known = "select count(*) from formulary.request_context"
    wait_until(lambda: fetch(dsn, known) == [(1,)], what="the context", shown=daemon.output)
    assert len(active(dsn)) < 100
    wait_until(lambda: len(active(dsn)) == 100, what="the workflows", seconds=60, shown=daemon.output)
