"""An attacker, or bad luck, tries to get something run although everything was halted: nothing starts any more."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.runs.run import NewInvocation, Phase
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.runs.approvals import ApprovalStore, NewApproval
from formulary_catalog.store.runs.halting import HaltWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import InvocationStore
from formulary_operator.admission.validator import Validator
from formulary_operator.api.names import CONTRACTS, INVOCATIONS, Json
from formulary_operator.engines.job import JOBS
from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.events import EventRecorder
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings
from formulary_operator.watch.queue import WorkQueue
from formulary_operator.wiring import Reconcile, RunWiring
from support.admission import Place, judging
from support.cluster import OperatorAccount, condition, fetch, objects
from support.cluster_runs import (
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
    submit,
)
from support.commands import formulary_now
from support.control_plane import Cluster, ControlPlane, KubectlFailed
from support.kube_clients import connected
from support.manifest import approval, contract
from support.operator_process import Daemon
from support.runs import request
from support.waiting import wait_until

ENDS_WITHIN = 10


@pytest.fixture(scope="module")
def ns(shared_namespace: str) -> str:
    """The namespace of this module, which is the shared one of its operator too."""
    return shared_namespace


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, ns: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator with a remedy in its catalog. Nobody ends its Jobs, so that they run until they are ended."""
    with running_operator(cluster, remedy(), dsn=dsn, namespace=ns, account=operator_account) as daemon:
        yield daemon


def halting(name: str, *, why: str) -> dict[str, Any]:
    document = contract(name, effect="HALT")
    document["spec"]["rules"] = [{"id": "stop", "effect": "HALT", "rationale": why}]
    return document


def halts(dsn: str) -> list[tuple[Any, ...]]:
    return fetch(dsn, "select namespace, contract from formulary.halt")


def lift(cluster: Cluster, dsn: str, ns: str, name: str) -> None:
    cluster.kubectl("delete", "gcon", name, f"--namespace={ns}")
    wait_until(lambda: halts(dsn) == [], what="the halt to be lifted")


@pytest.mark.smoke
def test_a_contract_ends_what_runs_within_ten_seconds_and_nothing_resumes_when_it_is_lifted(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    ask(cluster, "underway", namespace=ns, dsn=dsn)
    await_phase(cluster, "underway", "Running", namespace=ns)
    ask(cluster, "unapproved", namespace=ns, dsn=dsn, environment="production")
    await_phase(cluster, "unapproved", "AwaitingApproval", namespace=ns)
    run_id = run_object(cluster, "underway", namespace=ns)["status"]["invocationId"]
    wait_until(lambda: bool(job(cluster, run_id, namespace=ns)), what="the Job to be there")

    cluster.apply(halting("stop", why="it makes the outage worse"), namespace=ns)
    wait_until(lambda: halts(dsn) == [("", f"{ns}/stop")], what="the halt to be in force")
    told = await_phase(cluster, "underway", "Halted", namespace=ns, seconds=ENDS_WITHIN)
    assert told["reason"] == "Halted"
    assert "it makes the outage worse" in told["message"]
    assert not job(cluster, run_id, namespace=ns)
    waiting = await_phase(cluster, "unapproved", "Halted", namespace=ns, seconds=ENDS_WITHIN)
    (stop,) = [each for each in objects(cluster, CONTRACTS, namespace=ns) if each["metadata"]["name"] == "stop"]
    assert condition(stop)["reason"] == "Halting"
    assert running.metric("formulary_halts", scope="everywhere") == 1

    ask(cluster, "during", namespace=ns, dsn=dsn)
    await_phase(cluster, "during", "Halted", namespace=ns)
    lift(cluster, dsn, ns, "stop")
    cluster.apply(approval("too-late", run=waiting["invocationId"]), namespace=ns)
    ask(cluster, "afterwards", namespace=ns, dsn=dsn)
    await_phase(cluster, "afterwards", "Running", namespace=ns)
    for name in ("underway", "unapproved", "during"):
        assert run_object(cluster, name, namespace=ns)["status"]["phase"] == "Halted"
    assert [each["metadata"]["name"] for each in objects(cluster, JOBS, namespace=ns)] == [
        run_object(cluster, "afterwards", namespace=ns)["status"]["invocationId"]
    ]
    cluster.kubectl("delete", "wfi", "afterwards", f"--namespace={ns}")


@pytest.mark.smoke
def test_the_trail_says_who_halted_why_and_when_and_what_was_ended(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    ask(cluster, "recorded", namespace=ns, dsn=dsn)
    await_phase(cluster, "recorded", "Running", namespace=ns)
    said = formulary_now("halt", "--reason", "smoke in the rack", "--json", FORMULARY_DATABASE_URL=dsn)
    assert said.code == 0, said.err
    halt = json.loads(said.out)
    assert halt["ended_runs"] == 1
    await_phase(cluster, "recorded", "Halted", namespace=ns, seconds=ENDS_WITHIN)
    assert kinds(dsn, "rr-recorded")[-1] == "invocation.finished"
    lifted = formulary_now("resume", "--reason", "it is out", FORMULARY_DATABASE_URL=dsn)
    assert lifted.code == 0, lifted.err
    trace_id = halt["halted"]["trace_id"]
    assert kinds(dsn, trace_id) == ["halt.begun", "halt.lifted"]
    told = formulary_now("trace", "show", trace_id, FORMULARY_DATABASE_URL=dsn).out
    assert "runs halted everywhere by" in told
    assert "smoke in the rack" in told
    assert "it is out" in told
    assert formulary_now("trace", "verify", FORMULARY_DATABASE_URL=dsn).code == 0


@pytest.mark.smoke
def test_a_halt_of_one_namespace_leaves_the_others_alone(cluster: Cluster, dsn: str, ns: str, running: Daemon) -> None:
    said = formulary_now("halt", "--reason", "not here", "--namespace", "elsewhere", FORMULARY_DATABASE_URL=dsn)
    assert said.code == 0, said.err
    ask(cluster, "unhalted", namespace=ns, dsn=dsn)
    await_phase(cluster, "unhalted", "Running", namespace=ns)
    cluster.kubectl("delete", "wfi", "unhalted", f"--namespace={ns}")
    assert formulary_now("resume", FORMULARY_DATABASE_URL=dsn).code == 1
    assert formulary_now("resume", "--namespace", "elsewhere", FORMULARY_DATABASE_URL=dsn).code == 0


def test_a_halt_that_is_lifted_before_the_operator_looks_ends_the_runs_all_the_same(
    cluster: Cluster, dsn: str, ns: str, running: Daemon
) -> None:
    ask(cluster, "overlooked", namespace=ns, dsn=dsn)
    await_phase(cluster, "overlooked", "Running", namespace=ns)
    running.stop()
    waiting = submit(dsn, server_request("waiting", namespace=ns))
    for command in (("halt", "--reason", "briefly"), ("resume",)):
        assert formulary_now(*command, FORMULARY_DATABASE_URL=dsn).code == 0
    running.start().wait_ready()
    await_phase(cluster, "overlooked", "Halted", namespace=ns)
    wait_until(lambda: row(dsn, waiting.id)["phase"] == "Halted", what="what waited to be halted")
    assert objects(cluster, JOBS, namespace=ns) == []


def test_a_halt_with_an_exception_is_refused_when_it_is_applied(cluster: Cluster, ns: str) -> None:
    document = halting("but", why="all but one")
    document["spec"]["rules"][0]["match"] = {"workflows": ["restart"]}
    with pytest.raises(KubectlFailed, match=r"spec\.rules.*must not validate the schema|a HALT rule takes no match"):
        cluster.apply(document, namespace=ns)


async def test_with_the_webhook_the_trail_names_whoever_put_the_halt_into_a_contract_later(
    place: Place, judge: Validator, database: str, operator_account: OperatorAccount
) -> None:
    async with judging(place, judge):
        by = await asyncio.to_thread(_halted_by_an_edit, place, database, operator_account)
    assert by == f"admin with contract {place.namespace}/edited"


def _halted_by_an_edit(place: Place, database: str, account: OperatorAccount) -> str:
    """Who halted. In a thread: the webhook answers in the event loop."""
    plane, namespace = place.plane, place.namespace
    with running_operator(plane, remedy(), dsn=database, namespace=namespace, account=account):
        plane.apply(contract("edited"), namespace=namespace)
        plane.apply(halting("edited", why="second thoughts"), namespace=namespace)
        wait_until(lambda: halts(database) != [], what="the halt to be in force")
        ((by,),) = fetch(database, "select by from formulary.halt")
        return str(by)


@pytest.mark.smoke
async def test_a_halt_waits_for_the_start_that_is_under_way(writing: Database) -> None:
    runs, halts = RunWriter(writing, shared_namespace="formulary"), HaltWriter(writing)
    run = (await runs.submit(request())).invocation
    await runs.begin(run.id)
    leave = await runs.leave_to_start(run.id, seconds=20)
    assert leave is not None
    halting = asyncio.create_task(halts.halt(namespace="", reason="race", by="test"))
    assert await asyncio.wait([halting], timeout=0.5) == (set(), {halting})
    await runs.started(leave)
    await halting
    assert await runs.leave_to_start(run.id, seconds=20) is None


class _Noting(KubeClient):
    """Notes at which state of the cluster each Job came into being."""

    jobs: dict[str, int]

    async def create(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False, seconds: float | None = None
    ) -> Json:
        created = await super().create(path, body, dry_run=dry_run, seconds=seconds)
        if created["kind"] == JOBS.kind:
            self.jobs[created["metadata"]["name"]] = int(created["metadata"]["resourceVersion"])
        return created


class Race:
    """Two servers, two operators that both believe to lead, and somebody who halts."""

    def __init__(self, *, servers: list[Database], operators: list[Reconcile], writing: Database, ns: str) -> None:
        self._servers = [InvocationStore(database, shared_namespace=ns) for database in servers]
        self._operators = operators
        self._approvals = [ApprovalStore(database) for database in servers]
        self._halts = HaltWriter(writing)
        self._ns = ns
        self._chance = random.Random(20)
        self._patience = 0.25
        """Seconds within which the halt comes."""

    def adjust(self, *, begun: int) -> None:
        """Have the next halt come later if nothing had begun, earlier if all had: machines differ in speed."""
        self._patience *= (1.3, 1.0, 0.8)[begun]

    async def run(self, number: int, *, client: KubeClient) -> tuple[list[str], Halt, int]:
        """One try: the runs, the halt, and the state of the cluster once `halt` had returned."""
        asked = [
            server_request(f"race-{number}-{each}", namespace=self._ns, environment=environment)
            for each, environment in enumerate(("staging", "production"))
        ]
        async with asyncio.TaskGroup() as group:
            for new, store, approvals in zip(asked, self._servers, self._approvals, strict=True):
                group.create_task(self._ask(new, store=store, approvals=approvals))
                for each, reconcile in enumerate(self._operators):
                    group.create_task(self._bring_on(new.id, reconcile, makes_object=each == 0))
            await asyncio.sleep(self._chance.random() * self._patience)
            halt, _ = await self._halts.halt(namespace="", reason="race", by="test")
            listed = await client.get(JOBS.path(namespace=self._ns))
        await self._halts.resume(namespace="", by="test")
        assert listed is not None
        return [new.id for new in asked], halt, int(listed["metadata"]["resourceVersion"])

    async def _ask(self, new: NewInvocation, *, store: InvocationStore, approvals: ApprovalStore) -> None:
        await asyncio.sleep(self._chance.random() * 0.05)
        run = (await store.submit(new)).invocation
        if run.phase is Phase.AWAITING_APPROVAL:
            await asyncio.sleep(self._chance.random() * 0.1)
            await approvals.add(
                NewApproval(invocation_id=new.id, namespace=self._ns, decision="Approve", approver="ada")
            )

    async def _bring_on(self, name: str, reconcile: Reconcile, *, makes_object: bool) -> None:
        """As an operator does, again and again until the run is over; one of them makes its object."""
        while (run := await self._servers[0].find(name)) is None or not run.phase.is_final:
            if makes_object or (run is not None and run.object_uid):
                with suppress(FormularyError):  # such as that the other operator was quicker
                    await reconcile(namespace=self._ns, name=name)
            await asyncio.sleep(0.01)


@pytest.fixture
async def race(
    control_plane: ControlPlane, database: str, namespace: str, operator_account: OperatorAccount
) -> AsyncIterator[tuple[Race, KubeClient, dict[str, int]]]:
    """The racers, a client, and the Jobs that came into being with the state of the cluster at which they did."""
    jobs: dict[str, int] = {}
    settings = OperatorSettings(database_url=database, catalog_namespace=namespace)
    async with AsyncExitStack() as stack:

        async def opened(role: Role) -> Database:
            return await stack.enter_async_context(Database.opened(database, role=role, deadline=20))

        operators = []
        for number in range(2):
            noting = await stack.enter_async_context(connected(operator_account.kubeconfig, kind=_Noting))
            assert isinstance(noting, _Noting)
            noting.jobs = jobs
            executor = RunWiring(
                settings,
                name=f"operator-{number}",
                client=noting,
                database=await opened(Role.WRITER),
                events=EventRecorder(noting, instance=f"operator-{number}"),
                metrics=OperatorMetrics(),
                queue=WorkQueue(),
            )
            operators.append(executor.reconcilers[INVOCATIONS.plural])
        servers = [await opened(Role.SERVER) for _ in range(2)]
        racers = Race(servers=servers, operators=operators, writing=await opened(Role.WRITER), ns=namespace)
        yield racers, await stack.enter_async_context(connected(control_plane.kubeconfig)), jobs


@pytest.mark.parametrize("tries", [30, pytest.param(200, marks=pytest.mark.long)])
async def test_in_races_of_two_servers_and_two_operators_nothing_starts_after_the_halt(
    race: tuple[Race, KubeClient, dict[str, int]],
    control_plane: ControlPlane,
    database: str,
    namespace: str,
    tries: int,
) -> None:
    racers, client, jobs = race
    begun, phases = 0, Counter[str]()
    for number in range(tries):
        ids, halt, halted_at = await racers.run(number, client=client)
        late = {name: at for name, at in jobs.items() if name in ids and at > halted_at}
        assert late == {}, f"try {number}: Jobs came into being after the halt was committed"
        begun_now = sum(name in jobs for name in ids)
        racers.adjust(begun=begun_now)
        begun += begun_now
        rows = await asyncio.to_thread(
            fetch, database, "select phase, started_at from formulary.invocation where id = any ($1)", ids
        )
        phases.update(phase for phase, _ in rows)
        assert all(started is None or started <= halt.at for _, started in rows), f"try {number}"
    left = await client.get(JOBS.path(namespace=namespace))
    assert left is not None
    assert [each["metadata"]["name"] for each in left["items"]] == []
    assert sorted(created_jobs(control_plane.requests(), namespace=namespace)) == sorted(jobs)
    # Of two that both lead, one may find gone what the other has just deleted.
    assert phases.keys() <= {"Halted", "Failed"}
    assert phases["Halted"] > 1.8 * tries
    assert tries / 10 < begun < tries * 2 - tries / 10, "the halt came in the midst of starts, not before or after all"
