"""What became of the problem after a run, observed on a real API server, across kill -9 of the operator."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from formulary_catalog.domain.alerts.reading import read_alerts
from formulary_catalog.domain.alerts.source import source_spec
from formulary_catalog.store.alerts import AlertWriter
from formulary_catalog.store.database.connection import Database, Role
from support.alerts import alert, body, report
from support.cluster import OperatorAccount, fetch
from support.cluster_runs import kinds, remedy, running_operator, server_request, status, submit
from support.control_plane import Cluster
from support.job_controller import JobController, job_controller, succeed
from support.operator_process import Daemon
from support.waiting import wait_until

SELECTOR = {"matchLabels": {"app": "web"}}
POD = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "registry.example/a"}]}}
READY = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
WHAT_HAPPENS = {"resolves": "Helped", "stays": "NotHelped", "returns": "Relapsed", "touched": "Unknown"}
"""What becomes of the alert or of the target of each run, and what that says of the run."""
VERIFIED = "invocation.verified"


@pytest.fixture
def jobs(cluster: Cluster, namespace: str) -> Iterator[JobController]:
    with job_controller(cluster, namespace) as controller:
        yield controller


def deployment(name: str) -> dict[str, Any]:
    spec = {"selector": SELECTOR, "template": POD}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def say(dsn: str, name: str, *, namespace: str, status: str = "firing", fresh: bool = False) -> str:
    """Have a source report an alert about the Deployment of this name; the id of its incident."""

    async def send() -> str:
        async with Database.opened(dsn, role=Role.WRITER) as database:
            if not fresh and status == "firing":
                return await report(database, namespace=namespace, fingerprint=f"{namespace}-{name}", deployment=name)
            now = datetime.now(UTC)
            given = alert(f"{namespace}-{name}", status=status, namespace=namespace, deployment=name)
            given["startsAt"] = now.isoformat() if fresh else given["startsAt"]
            spec = source_spec({"type": "alertmanager", "namespaces": [namespace]})
            alerts, _ = read_alerts(spec, body(given))
            await AlertWriter(database).receive(namespace=namespace, name="alerts", alerts=alerts, problem="", at=now)
            return alerts[0].id

    return asyncio.run(send())


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(False, id="undisturbed", marks=pytest.mark.smoke),
        pytest.param(True, id="killed", marks=pytest.mark.long),
    ],
)
def test_what_becomes_of_the_problem_is_the_outcome_once_for_each_run(
    cluster: Cluster, database: str, namespace: str, operator_account: OperatorAccount, jobs: JobController, kills: bool
) -> None:
    workflow = remedy()
    cluster.kubectl("label", "namespace", namespace, "environment=staging")
    cluster.apply(*map(deployment, WHAT_HAPPENS), namespace=namespace)
    running = running_operator(cluster, workflow, dsn=database, namespace=namespace, account=operator_account)
    with running as daemon:
        incidents = {name: say(database, name, namespace=namespace) for name in WHAT_HAPPENS}
        jobs.ends = lambda job: None
        runs = {}
        for name, incident in incidents.items():
            asked = server_request(name, namespace=namespace, manifest=workflow)
            runs[name] = submit(database, replace(asked, remediation_id=incident)).id
        wait_until(lambda: phases(database) == {"Running"} and len(jobs.seen) == len(runs), what="all Jobs")
        if kills:
            restart(daemon)  # what was noted before the runs began is still known
        for name in ("resolves", "returns", "touched"):
            make_ready(cluster, name, namespace=namespace)
        for name in ("returns", "touched"):
            say(database, name, namespace=namespace, status="resolved")
        jobs.ends = succeed
        wait_until(lambda: phases(database) == {"Succeeded"}, what="all runs to end")
        hurry(database, window=25 if kills else 8)
        say(database, "resolves", namespace=namespace, status="resolved")
        say(database, "returns", namespace=namespace, fresh=True)
        cluster.kubectl("scale", "deployment/touched", "--replicas=2", f"--namespace={namespace}")
        if kills:
            restart(daemon)
        told = {name: outcome(cluster, run, namespace=namespace) for name, run in runs.items()}
        if kills:
            restart(daemon)
    assert {name: each["outcome"] for name, each in told.items()} == WHAT_HAPPENS
    assert {name: each.get("fitness") for name, each in told.items()} == dict(
        zip(WHAT_HAPPENS, (1, 0, 0, None), strict=True)
    )
    assert "the alert resolved" in told["resolves"]["feedback"]
    assert "Deployment/resolves was ready" in told["resolves"]["feedback"]
    assert "the alert was firing" in told["stays"]["feedback"]
    assert "changed by somebody else" in told["touched"]["feedback"]
    assert {name: kinds(database, each).count(VERIFIED) for name, each in incidents.items()} == dict.fromkeys(runs, 1)
    assert fetch(database, "select helped, verified from formulary.workflow_outcome") == [(1, 3)]


def phases(dsn: str) -> set[str]:
    return {phase for (phase,) in fetch(dsn, "select phase from formulary.invocation")}


def hurry(dsn: str, *, window: int) -> None:
    """Have the outcome of all runs that ended decided sooner than a manifest may say."""
    fetch(
        dsn,
        "update formulary.invocation set verify_at = finished_at + make_interval(secs => $1::float8 * 1.5), "
        "document = jsonb_set(document, '{spec,verification}', $2::jsonb)",
        window,
        json.dumps({"stabilization": "0s", "window": f"{window}s"}),
    )


def restart(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start().wait_ready()


def make_ready(cluster: Cluster, name: str, *, namespace: str) -> None:
    patch = json.dumps({"status": READY})
    where = (f"deployment/{name}", f"--namespace={namespace}", "--subresource=status", "--type=merge")
    cluster.kubectl("patch", *where, f"--patch={patch}")


def outcome(cluster: Cluster, run: str, *, namespace: str) -> dict[str, Any]:
    """The status of a run once its outcome is known."""
    wait_until(
        lambda: "outcome" in status(cluster, run, namespace=namespace),
        what=f"the outcome of {run}",
        seconds=60,
        shown=lambda: str(status(cluster, run, namespace=namespace)),
    )
    return status(cluster, run, namespace=namespace)
