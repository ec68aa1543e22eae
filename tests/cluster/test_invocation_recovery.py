"""Runs and interruptions: the operator is killed anywhere, API server and PostgreSQL go away; one run is one Job."""

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from formulary_catalog.domain.runs.run import NewInvocation
from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.cluster import OperatorAccount, fetch
from support.cluster_runs import (
    ask,
    await_phase,
    created_jobs,
    job,
    kinds,
    remedy,
    row,
    running_operator,
    server_request,
    submit,
)
from support.control_plane import Cluster, ControlPlane
from support.job_controller import JobController, job_controller, succeed
from support.operator_process import Daemon
from support.waiting import wait_until

BEFORE_THE_JOB, AFTER_THE_JOB = 2, 3
"""Of `moments`: a run has begun and has no Job; its Job is there, and nobody has noted it."""
PHASES = "select id, phase from formulary.invocation"


@pytest.fixture
def running(cluster: Cluster, database: str, namespace: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator of this test's namespace, with the remedy in its catalog."""
    with running_operator(cluster, remedy(), dsn=database, namespace=namespace, account=operator_account) as daemon:
        yield daemon


@pytest.fixture
def jobs(cluster: Cluster, namespace: str) -> Iterator[JobController]:
    """Jobs succeed."""
    with job_controller(cluster, namespace) as controller:
        yield controller


def until(dsn: str, invocation_id: str, wanted: str, *, seconds: float = 60) -> None:
    wait_until(
        lambda: row(dsn, invocation_id)["phase"] == wanted,
        what=f"{invocation_id} to be {wanted}",
        seconds=seconds,
        shown=lambda: str(row(dsn, invocation_id)),
    )


def moments(plane: ControlPlane, dsn: str, new: NewInvocation) -> list[Callable[[], object]]:
    """The moments at which a run can be interrupted, from the request to the end, each as a question."""
    made = f"select id from formulary.invocation where id = '{new.id}' and "
    return [
        lambda: fetch(dsn, f"{made} true"),
        lambda: fetch(dsn, f"{made} object_uid <> ''"),
        lambda: fetch(dsn, f"{made} started_at is not null"),
        lambda: new.id in created_jobs(plane.requests(), namespace=new.namespace),
        lambda: fetch(dsn, f"{made} reference <> '{{}}'"),
        lambda: fetch(dsn, f"{made} finished_at is not null"),
    ]


@pytest.mark.smoke
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([BEFORE_THE_JOB, AFTER_THE_JOB], id="two kills"),
        pytest.param(
            [kill % 6 for kill in range(20)], id="twenty kills", marks=[pytest.mark.long, pytest.mark.timeout(900)]
        ),
    ],
)
def test_killed_anywhere_it_makes_one_job_for_each_run(
    control_plane: ControlPlane,
    database: str,
    namespace: str,
    running: Daemon,
    jobs: JobController,
    kills: list[int],
) -> None:
    chance = random.Random(20)
    asked: list[str] = []
    for kill, moment in enumerate(kills):
        new = server_request(f"incident-{kill}", namespace=namespace, timeout_seconds=600)
        interrupted = moments(control_plane, database, new)[moment]
        jobs.ends = (lambda job: None) if moment == AFTER_THE_JOB else succeed
        submitting = threading.Thread(target=submit, args=(database, new))
        submitting.start()
        submitting.join()
        wait_until(interrupted, what="the moment to be there", shown=running.output)
        # And a little later each time, within the step that follows.
        time.sleep(chance.random() * 0.05)
        running.kill()
        if moment == AFTER_THE_JOB:  # as if it had been killed before it could note the Job
            fetch(database, "update formulary.invocation set reference = '{}' where id = $1 returning id", new.id)
        jobs.ends = succeed
        running.start()
        asked.append(new.id)
    for invocation_id in asked:
        until(database, invocation_id, "Succeeded")
        await_phase(control_plane, invocation_id, "Succeeded", namespace=namespace)
    # At most: where the operator was killed while it waited for the answer, the audit log has an error of the client.
    assert set(Counter(created_jobs(control_plane.requests(), namespace=namespace)).values()) == {1}
    assert {name.partition("/")[2]: len(uids) for name, uids in jobs.seen.items()} == dict.fromkeys(asked, 1)
    for kill in range(len(kills)):
        happened = Counter(kinds(database, f"rr-incident-{kill}"))
        assert happened["invocation.started"] == happened["invocation.finished"] == 1


def test_a_run_goes_on_while_the_operator_is_away_and_its_end_is_told_later(
    cluster: Cluster, database: str, namespace: str, running: Daemon, jobs: JobController
) -> None:
    jobs.ends = lambda job: None
    asked = submit(database, server_request(namespace=namespace))
    wait_until(lambda: job(cluster, asked.id, namespace=namespace), what="the Job")
    running.kill()
    jobs.ends = succeed
    wait_until(
        lambda: job(cluster, asked.id, namespace=namespace)["status"].get("conditions"), what="the Job to be done"
    )
    running.start()
    until(database, asked.id, "Succeeded")


def test_what_was_deleted_while_nobody_watched_is_cancelled(
    cluster: Cluster, database: str, namespace: str, running: Daemon
) -> None:
    asked = submit(database, server_request(namespace=namespace))
    wait_until(lambda: job(cluster, asked.id, namespace=namespace), what="the Job")
    until(database, asked.id, "Running")
    running.kill()
    # As if it had been killed before it could note the Job.
    fetch(database, "update formulary.invocation set reference = '{}' returning id")
    cluster.kubectl("delete", "wfi", asked.id, f"--namespace={namespace}")
    running.start()
    until(database, asked.id, "Cancelled")
    assert job(cluster, asked.id, namespace=namespace) == {}


def test_an_object_that_was_deleted_and_made_anew_is_another_run(
    cluster: Cluster, database: str, namespace: str, running: Daemon
) -> None:
    ask(cluster, "twice", namespace=namespace, dsn=database)
    first = await_phase(cluster, "twice", "Running", namespace=namespace)["invocationId"]
    wait_until(lambda: job(cluster, first, namespace=namespace), what="the Job")
    running.kill()
    cluster.kubectl("delete", "wfi", "twice", f"--namespace={namespace}")
    ask(cluster, "twice", namespace=namespace, dsn=database)
    running.start()
    until(database, first, "Cancelled")
    second = await_phase(cluster, "twice", "Running", namespace=namespace)["invocationId"]
    wait_until(lambda: job(cluster, second, namespace=namespace), what="the second Job")
    assert job(cluster, first, namespace=namespace) == {}


def test_a_run_whose_time_passed_while_nobody_could_start_it_is_never_started(
    control_plane: ControlPlane, database: str, namespace: str, running: Daemon
) -> None:
    running.kill()
    asked = submit(database, server_request(namespace=namespace, timeout_seconds=1))
    # As if it had been killed between the decision and the Job.
    begun = "update formulary.invocation set phase = 'Running', started_at = now() - interval '1 minute' returning id"
    assert fetch(database, begun) == [(asked.id,)]
    running.start()
    until(database, asked.id, "TimedOut")
    assert "nothing was started within the timeout" in row(database, asked.id)["message"]
    assert created_jobs(control_plane.requests(), namespace=namespace) == []


def test_the_api_server_may_be_away_while_runs_are_asked_for(
    control_plane: ControlPlane, database: str, namespace: str, running: Daemon, jobs: JobController
) -> None:
    control_plane.stop_api_server(kill=True)
    asked = submit(database, server_request(namespace=namespace, timeout_seconds=600))
    wait_until(lambda: running.events("reconcile_failed"), what="the operator to have noticed")
    control_plane.start_api_server()
    until(database, asked.id, "Succeeded", seconds=90)
    assert created_jobs(control_plane.requests(), namespace=namespace) == [asked.id]


def test_postgresql_may_be_away_while_a_job_ends(
    control_plane: ControlPlane, dsn: str, namespace: str, data_dirs: Path, operator_account: OperatorAccount
) -> None:
    with EmbeddedPostgres(data_dir=data_dirs / f"runs-{uuid.uuid4().hex[:8]}") as postgres:
        dsn = postgres.dsn()
        migrate(dsn)
        with (
            running_operator(control_plane, remedy(), dsn=dsn, namespace=namespace, account=operator_account) as daemon,
            job_controller(control_plane, namespace, ends=lambda job: None) as jobs,
        ):
            asked = submit(dsn, server_request(namespace=namespace, timeout_seconds=600))
            wait_until(lambda: job(control_plane, asked.id, namespace=namespace), what="the Job")
            postgres.stop()
            jobs.ends = succeed
            wait_until(lambda: daemon.events("runs_not_read"), what="the operator to have noticed")
            postgres.start()
            until(dsn, asked.id, "Succeeded", seconds=90)
            await_phase(control_plane, asked.id, "Succeeded", namespace=namespace)
    assert created_jobs(control_plane.requests(), namespace=namespace) == [asked.id]
