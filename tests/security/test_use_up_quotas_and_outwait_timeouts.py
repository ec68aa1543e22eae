"""An attacker fills a caller's limits or the database with runs that do nothing, or starts one long after its time."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.runs.run import Phase, Reason
from formulary_catalog.domain.runs.submission import RunRules
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.errors import RateLimited
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import CallerLimits, InvocationStore
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.access.authorization import Authorizer
from formulary_operator.access.reviews import Reviewer
from formulary_operator.access.targets import KubernetesTargets
from formulary_operator.runs.permits import Permits
from formulary_operator.runs.permitting import RunPolicy
from formulary_operator.runs.status import RunRefusal
from formulary_operator.runs.submission import RunSubmission
from formulary_operator.runs.targets import RunTargets
from support.cluster_runs import INPUT, remedy
from support.control_plane import Cluster
from support.filling import fill
from support.kube_clients import connected
from support.manifest import invocation
from support.runs import IN_PRODUCTION, request

LATE = Reason.DEADLINE_EXCEEDED


async def test_runs_that_wait_for_a_person_leave_room_for_others(writing: Database) -> None:
    store, limits = InvocationStore(writing, shared_namespace="formulary"), CallerLimits(concurrent=1)
    for _ in range(3):
        waiting = (await store.submit(request(facts=IN_PRODUCTION), limits=limits)).invocation
        assert waiting.phase is Phase.AWAITING_APPROVAL
    await store.submit(request(), limits=limits)
    with pytest.raises(RateLimited, match="1 runs under way"):
        await store.submit(request(), limits=limits)


async def test_dry_runs_use_up_nothing_of_the_room_for_real_ones(writing: Database) -> None:
    store, limits = InvocationStore(writing, shared_namespace="formulary"), CallerLimits(concurrent=1, per_hour=1)
    for _ in range(3):
        await store.submit(request(dry_run=True), limits=limits)
    await store.submit(request(), limits=limits)
    await store.submit(request(dry_run=True), limits=limits)
    with pytest.raises(RateLimited):
        await store.submit(request(), limits=limits)


async def test_a_loop_of_dry_runs_comes_to_an_end(writing: Database) -> None:
    store, limits = InvocationStore(writing, shared_namespace="formulary"), CallerLimits(dry_per_hour=2)
    for number in range(2):
        await store.submit(request(dry_run=True, key=str(number)), limits=limits)
    with pytest.raises(RateLimited, match="2 dry runs within an hour, which is all it may; retry in") as refused:
        await store.submit(request(dry_run=True), limits=limits)
    assert 3500 < refused.value.retry_after <= 3600
    assert (await store.submit(request(dry_run=True, key="1"), limits=limits)).repeated
    await store.submit(request(), limits=limits)
    await store.submit(request(dry_run=True, caller="somebody-else"), limits=limits)


async def test_a_loop_of_runs_that_a_rule_turns_into_dry_ones_comes_to_an_end(writing: Database) -> None:
    store, limits = InvocationStore(writing, shared_namespace="formulary"), CallerLimits(dry_per_hour=2)
    contracts = ContractWriter(writing, shared_namespace="formulary")
    await contracts.save({"rules": [{"id": "look", "effect": "DEGRADE"}]}, namespace="shop", name="c", uid="u")
    await store.submit(request(dry_run=True), limits=limits)
    await store.submit(request(), limits=limits)
    with pytest.raises(RateLimited, match="2 dry runs within an hour"):
        await store.submit(request(), limits=limits)


async def test_a_run_with_a_timeout_of_seconds_is_not_started_after_it(writing: Database, database: str) -> None:
    runs = RunWriter(writing, shared_namespace="formulary")
    late = (await runs.submit(request(timeout_seconds=5))).invocation
    waiting = (await runs.submit(request(timeout_seconds=5, facts=IN_PRODUCTION))).invocation
    owner = await asyncpg.connect(database)
    try:
        await owner.execute("update formulary.invocation set created_at = created_at - interval '6 seconds'")
    finally:
        await owner.close()
    ended = await runs.begin(late.id)
    assert ended is not None
    assert (ended.phase, ended.started_at) == (Phase.TIMED_OUT, None)
    still = await runs.begin(waiting.id)
    assert still is not None
    assert still.phase is Phase.AWAITING_APPROVAL, "what waits for a person has a day"


@pytest.mark.parametrize(
    ("takes", "given", "age", "becomes"),
    [
        ({}, {"timeoutSeconds": 5}, 7, LATE),
        ({}, {"timeoutSeconds": 600}, 500, 600),
        ({}, {}, 33, LATE),
        ({}, {}, 20, 30),
        ({"estimatedDuration": "10m"}, {}, 1000, 1200),
        ({"estimatedDuration": "10m"}, {}, 1203, LATE),
        ({"estimatedDuration": "10m"}, {"timeoutSeconds": 5}, 7, LATE),
    ],
)
async def test_an_object_that_nobody_took_up_within_the_timeout_of_its_run_becomes_no_run(
    cluster: Cluster,
    writing: Database,
    workflows: CatalogWriter,
    takes: dict[str, Any],
    given: dict[str, Any],
    age: float,
    becomes: object,
) -> None:
    await fill(workflows, [remedy(**takes)])
    document = invocation("late", workflow="restart", input=INPUT, **given)
    created = (datetime.now(UTC) - timedelta(seconds=age)).isoformat(timespec="seconds")
    document["metadata"] |= {"namespace": "shop", "uid": "u-1", "generation": 1, "creationTimestamp": created}
    runs = RunWriter(writing, shared_namespace="formulary")
    async with connected(cluster.kubeconfig) as client:
        authorizer = Authorizer(Reviewer(client), clock=time.monotonic)
        requests = RunSubmission(
            writing,
            runs=runs,
            permits=Permits(
                client=client,
                policy=RunPolicy(shared_namespace="formulary"),
                admissions=AdmissionRecords(writing),
                authorizer=authorizer,
            ),
            authorizer=authorizer,
            targets=RunTargets(
                KubernetesTargets(client), mapping=DEFAULT_MAPPING, alerts=AlertReader(writing), of_objects=False
            ),
            runs_namespace="formulary-runs",
            rules=RunRules(shared_namespace="formulary"),
        )
        told = await requests.run_of(document)
    assert (told.reason if isinstance(told, RunRefusal) else told and told.timeout_seconds) == becomes
    assert len(await runs.active()) == (becomes is not LATE)
