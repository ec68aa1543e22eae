"""The operator, the API server and PostgreSQL end, hang and come back: cluster and catalog agree in the end."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest

from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.api.names import EVENTS, WORKFLOWS
from support.asking import finds, search
from support.cluster import OperatorAccount, apply_many, await_agreement, delete_all, disagreements, fetch, objects
from support.commands import formulary_now
from support.control_plane import Cluster, ControlPlane
from support.manifest import analysis, workflow
from support.operator_process import Daemon, operator, server
from support.waiting import wait_until

ROWS_OF_A_SYNC = 20
WATCH_LOST = 3
"""The exit code of an operator that lost a stream of its watch."""
NEVER = "3600"  # seconds until a periodic resync: what heals here must not be that


@pytest.fixture
def stopped(database: str, namespace: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator of this test's namespace that is not started yet."""
    with operator(
        dsn=database,
        kubeconfig=operator_account.kubeconfig,
        watch_namespaces=namespace,
        resync_seconds=NEVER,
        sweep_max_fraction="1",
    ) as daemon:
        yield daemon


@pytest.fixture
def running(stopped: Daemon) -> Daemon:
    """The same, ready."""
    stopped.start().wait_ready()
    return stopped


@pytest.fixture
def own_postgres(data_dirs: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that a test may stop, with our schema."""
    with EmbeddedPostgres(data_dir=data_dirs / f"recovery-{uuid.uuid4().hex[:8]}") as started:
        migrate(started.dsn())
        yield started


@contextmanager
def frozen(daemon: Daemon) -> Iterator[None]:
    """Keep a process from doing anything for a while."""
    assert daemon.process is not None
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


def names(cluster: Cluster, namespace: str) -> set[str]:
    return {document["metadata"]["name"] for document in objects(cluster, WORKFLOWS, namespace=namespace)}


def sweep_now(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `formulary-operator sweep`."""
    command = [str(Path(sys.executable).with_name("formulary-operator")), "sweep", *arguments]
    environment = os.environ | {"FORMULARY_DATABASE_URL": dsn}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def delete(cluster: Cluster, *names: str, namespace: str) -> None:
    cluster.kubectl("delete", "rw", *names, f"--namespace={namespace}")


def count_versions(dsn: str) -> int:
    ((count,),) = fetch(dsn, "select count(*) from formulary.workflow_version")
    return int(count)


def has_versions(dsn: str, wanted: int) -> bool:
    return count_versions(dsn) >= wanted


def test_what_happens_while_the_operator_is_down_is_made_up_for(
    cluster: Cluster, namespace: str, database: str, running: Daemon
) -> None:
    apply_many(cluster, [workflow("stays"), workflow("changes"), workflow("goes")], namespace=namespace)
    await_agreement(cluster, database, namespace)
    assert running.stop() == 0
    delete(cluster, "goes", namespace=namespace)
    apply_many(cluster, [workflow("changes", version="2.0.0"), workflow("comes")], namespace=namespace)
    running.start().wait_ready()
    await_agreement(cluster, database, namespace, seconds=5)


def test_it_survives_an_api_server_that_is_killed_and_restarted(
    control_plane: ControlPlane, namespace: str, database: str, running: Daemon
) -> None:
    apply_many(control_plane, [workflow("before"), workflow("goes")], namespace=namespace)
    await_agreement(control_plane, database, namespace)
    control_plane.stop_api_server(kill=True)
    control_plane.start_api_server()
    delete(control_plane, "goes", namespace=namespace)
    apply_many(control_plane, [workflow("after")], namespace=namespace)

    def agree() -> bool:
        if running.process is not None and running.process.poll() == WATCH_LOST:
            running.start()  # as the kubelet does: an API server that starts may deny what it grants a moment later
        return not disagreements(control_plane, database, namespace)

    # Watches that ended begin again after pauses that grow, and on a busy machine the API server needs long to start.
    wait_until(agree, what="cluster and catalog to agree", seconds=90, shown=running.output)
    assert running.is_ready()
    assert running.crashes() == []


def test_a_deletion_in_a_gap_of_the_watch_is_found(
    control_plane: ControlPlane, namespace: str, database: str, running: Daemon
) -> None:
    apply_many(control_plane, [workflow("stays"), workflow("goes")], namespace=namespace)
    await_agreement(control_plane, database, namespace)
    resyncs = len(running.events("resynced"))
    with frozen(running):
        control_plane.stop_api_server(kill=True)  # ends the watch, or the operator would yet read of the deletion
        control_plane.start_api_server()
        delete(control_plane, "goes", namespace=namespace)
        control_plane.forget_history()
    await_agreement(control_plane, database, namespace)
    wait_until(lambda: len(running.events("resynced")) > resyncs, what="the resync after the gap")


@pytest.mark.smoke
@pytest.mark.parametrize("outage", [3.0, pytest.param(30.0, marks=pytest.mark.long)])
def test_postgresql_may_be_down_for_a_while(
    cluster: Cluster, namespace: str, own_postgres: EmbeddedPostgres, operator_account: OperatorAccount, outage: float
) -> None:
    dsn = own_postgres.dsn()
    with (
        operator(dsn=dsn, kubeconfig=operator_account.kubeconfig, watch_namespaces=namespace) as watching,
        server(dsn=dsn) as serving,
    ):
        watching.start()
        serving.start().wait_ready()
        watching.wait_ready()
        apply_many(cluster, [workflow("stays"), workflow("changes"), workflow("goes")], namespace=namespace)
        await_agreement(cluster, dsn, namespace)

        own_postgres.stop()
        stopped_at = time.monotonic()
        wait_until(lambda: not watching.is_ready(), what="the operator to say that it cannot work")
        apply_many(cluster, [workflow("changes", version="2.0.0"), workflow("comes")], namespace=namespace)
        delete(cluster, "goes", namespace=namespace)
        while time.monotonic() - stopped_at < outage:
            with pytest.raises(httpx2.HTTPStatusError, match="503"):
                search(serving.url, "stays")
            assert httpx2.get(f"{serving.url}/healthz").status_code == 200
            assert not serving.is_ready()
            assert httpx2.get(f"{watching.url}/healthz").status_code == 200
            answer = httpx2.get(f"{watching.url}/readyz", timeout=5)
            assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
            assert "the database does not answer" in answer.json()["detail"]
            time.sleep(0.5)
        own_postgres.start()

        await_agreement(cluster, dsn, namespace)
        wait_until(serving.is_ready, what="the server to be ready again")
        wait_until(watching.is_ready, what="the operator to be ready again")
        assert finds(serving.url, "comes")
        assert not finds(serving.url, "goes")
        assert [*watching.crashes(), *serving.crashes()] == []


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_killed_in_the_middle_of_a_sync_it_makes_cluster_and_catalog_agree_each_time(
    cluster: Cluster, namespace: str, database: str, running: Daemon, kills: int
) -> None:
    chance = random.Random(20)
    interrupted = 0
    for kill in range(kills):
        present = sorted(names(cluster, namespace))
        changed = [workflow(name, version=f"1.{kill}.0") for name in chance.sample(present, k=min(10, len(present)))]
        created = [workflow(f"new-{kill}-{number}", suspend=number == 0) for number in range(10)]
        incident = analysis(f"incident-{kill}", remediation_id=f"rr-{namespace}-{kill}")
        incident["metadata"]["namespace"] = namespace
        applying = threading.Thread(
            target=apply_many, args=(cluster, [*changed, *created, incident]), kwargs={"namespace": namespace}
        )
        # Each time a little later: after the first row, in the middle, of twenty shortly before the last.
        under_way = partial(has_versions, database, count_versions(database) + 1 + kill * ROWS_OF_A_SYNC // kills)
        applying.start()
        wait_until(under_way, what="the sync to be under way", shown=running.output)
        running.kill()
        applying.join()
        delete(cluster, *(f"new-{kill}-{number}" for number in range(1, 4)), namespace=namespace)
        interrupted += bool(disagreements(cluster, database, namespace))
        running.start()
        await_agreement(cluster, database, namespace, seconds=60)
    assert interrupted == kills


@pytest.mark.long
def test_a_second_replica_takes_over_from_one_that_is_killed(
    cluster: Cluster, namespace: str, database: str, operator_account: OperatorAccount
) -> None:
    def replica(name: str) -> dict[str, str]:
        return {
            "watch_namespaces": namespace,
            "resync_seconds": NEVER,
            "lease_namespace": operator_account.namespace,
            "lease_name": namespace,
            "pod_name": name,
        }

    account = operator_account.kubeconfig
    with (
        operator(dsn=database, kubeconfig=account, **replica("one")) as first,
        operator(dsn=database, kubeconfig=account, **replica("two")) as second,
    ):
        first.start()
        wait_until(lambda: first.is_ready() and first.metric("formulary_leader") == 1, what="a leader", seconds=60)
        second.start().wait_ready()
        assert second.metric("formulary_leader") == 0
        apply_many(cluster, [workflow("of-the-first")], namespace=namespace)
        await_agreement(cluster, database, namespace)
        first.kill()
        apply_many(cluster, [workflow("of-the-second")], namespace=namespace)
        wait_until(lambda: second.metric("formulary_leader") == 1, what="the second to lead", seconds=40)
        await_agreement(cluster, database, namespace)


def test_asked_to_end_it_finishes_what_it_has_begun(
    cluster: Cluster, namespace: str, database: str, running: Daemon
) -> None:
    apply_many(cluster, [workflow(f"many-{number}") for number in range(60)], namespace=namespace)
    started = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - started < 25
    assert running.crashes() == []
    # Whatever was stored was also told, or will be at the next start: nothing is left half done.
    half_written = """
        select v.name from formulary.workflow_version v left join formulary.workflow_search s using (version_id)
        where v.status = 'Active' and s.emb is null
    """
    assert fetch(database, half_written) == []


def refused(daemon: Daemon) -> None:
    """Wait until the sweep is refused: after a stop on a busy machine the Lease may have to run out first."""
    daemon.wait_ready()
    wait_until(
        lambda: daemon.metric("formulary_sweep_refused") == 40, what="the sweep to be refused", shown=daemon.output
    )


def test_a_mass_deletion_is_refused_and_told_until_somebody_says_that_it_is_meant(
    cluster: Cluster, namespace: str, database: str, operator_account: OperatorAccount
) -> None:
    watching = partial(
        operator, dsn=database, kubeconfig=operator_account.kubeconfig, watch_namespaces=namespace, resync_seconds=NEVER
    )
    lease = "sweeping"
    with watching(lease_namespace=namespace, lease_name=lease) as cautious:
        cautious.start().wait_ready()
        apply_many(cluster, [workflow(f"many-{number}") for number in range(40)], namespace=namespace)
        await_agreement(cluster, database, namespace)
        cautious.stop()
        delete_all(cluster, WORKFLOWS, namespace=namespace)
        cautious.start()
        refused(cautious)
        (refusal,) = cautious.events("sweep_refused")
        assert (refusal["level"], refusal["missing"]) == ("error", 40)
        allow = f"formulary-operator sweep --allow {refusal['id']}"
        assert allow in refusal["next_step"]
        (event,) = [each for each in objects(cluster, EVENTS, namespace=namespace) if each["reason"] == "SweepRefused"]
        assert event["involvedObject"]["name"] == lease
        assert allow in event["message"]
        doctor = formulary_now("doctor", "--database-url", database)
        assert (doctor.code, "40 of 40 served workflows are missing" in doctor.out, allow in doctor.out) == (
            3,
            True,
            True,
        ), doctor.out
        noted = "select sweep, missing, served from formulary.resync"
        wait_until(lambda: fetch(database, noted) == [(refusal["id"], 40, 40)], what="people to be able to see it")
        active = "select count(*) from formulary.workflow_version where status = 'Active'"
        assert fetch(database, active) == [(40,)]

        assert sweep_now(database, "--allow", "sweep-00000000").returncode != 0
        assert refusal["id"] in sweep_now(database).stdout
        assert sweep_now(database, "--allow", refusal["id"]).returncode == 0
        await_agreement(cluster, database, namespace, seconds=30)
        assert cautious.metric("formulary_sweep_refused") == 0
        wait_until(
            lambda: fetch(database, "select count(*) from formulary.sweep_refusal") == [(0,)],
            what="the allowance to end",
            shown=cautious.output,
        )
        assert sweep_now(database).stdout == "nothing is refused\n"
        wait_until(
            lambda: cautious.metric("formulary_drift_objects", kind=WORKFLOWS.plural) == 0, what="nothing to differ"
        )
        apply_many(cluster, [workflow(f"many-{number}") for number in range(40)], namespace=namespace)
        await_agreement(cluster, database, namespace)
        cautious.stop()
        delete_all(cluster, WORKFLOWS, namespace=namespace)
        cautious.start()
        refused(cautious)  # what was allowed once is refused when it comes again
