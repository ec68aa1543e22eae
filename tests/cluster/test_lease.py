"""Leader election on a real API server."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from formulary_operator.kube.client import KubeClient
from formulary_operator.kube.lease import Leadership, LeadershipLost, LeaseTimes
from support.control_plane import Cluster, ControlPlane
from support.kube_clients import connected, connected_to

FAST = LeaseTimes(duration=8, deadline=5, renewal=0.2, retry=0.1)
Contender = Callable[..., Leadership]


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with connected(cluster.kubeconfig) as connection:
        yield connection


@pytest.fixture
def contender(client: KubeClient, namespace: str) -> Contender:
    def new(identity: str, *, times: LeaseTimes = FAST) -> Leadership:
        return Leadership(client, namespace=namespace, name="leader", identity=identity, times=times)

    return new


@pytest.fixture
def port_of_nobody() -> Iterator[int]:
    """A port that is bound and never listened on, so that connections to it are refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def _spec(cluster: Cluster, namespace: str) -> dict[str, Any]:
    spec: dict[str, Any] = cluster.get("lease", "leader", f"--namespace={namespace}")["spec"]
    return spec


async def _waits(leadership: Leadership, *, seconds: float) -> bool:
    """Whether it does not lead within this time."""
    try:
        await asyncio.wait_for(leadership.acquire(), timeout=seconds)
    except TimeoutError:
        return True
    return False


async def _made_again(cluster: Cluster, namespace: str) -> None:
    there = ("get", "lease", "leader", f"--namespace={namespace}", "--ignore-not-found")
    while True:
        if await asyncio.to_thread(cluster.kubectl, *there):
            return
        await asyncio.sleep(0.1)


@asynccontextmanager
async def _kept(leadership: Leadership) -> AsyncIterator[None]:
    """The lease is renewed while inside."""
    keeping = asyncio.create_task(leadership.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_one_leads_and_the_other_waits_for_as_long_as_it_renews(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    first, second = contender("first"), contender("second")
    await first.acquire()
    async with _kept(first):
        assert await _waits(second, seconds=1.5 * FAST.duration)
    spec = _spec(cluster, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("first", 0, 8)
    assert spec["renewTime"] > spec["acquireTime"]


async def test_the_other_takes_over_once_the_first_stopped_renewing_and_the_first_notices(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    first, second = contender("first"), contender("second")
    await first.acquire()
    started = time.monotonic()
    await second.acquire()
    assert time.monotonic() - started >= FAST.duration
    spec = _spec(cluster, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)
    with pytest.raises(LeadershipLost, match="could not be renewed"):
        await first.keep()


@pytest.mark.smoke
async def test_a_leader_whose_lease_another_took_stops_and_names_it(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    leader = contender("first")
    await leader.acquire()
    taken = '{"spec": {"holderIdentity": "second"}}'
    await asyncio.to_thread(
        cluster.kubectl, "patch", "lease", "leader", f"--namespace={namespace}", "--type=merge", f"--patch={taken}"
    )
    with pytest.raises(LeadershipLost, match=rf"lease {namespace}/leader is held by second now"):
        await asyncio.wait_for(leader.keep(), timeout=10)


async def test_a_lease_that_is_given_back_is_taken_at_once(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    slow = LeaseTimes(duration=60, retry=0.1)
    first, second = contender("first", times=slow), contender("second", times=slow)
    await first.acquire()
    await first.release()
    assert _spec(cluster, namespace)["holderIdentity"] == ""
    assert not await _waits(second, seconds=30)


async def test_who_does_not_lead_gives_nothing_back(cluster: Cluster, namespace: str, contender: Contender) -> None:
    first, second = contender("first"), contender("second")
    await first.acquire()
    await second.release()
    assert _spec(cluster, namespace)["holderIdentity"] == "first"


async def test_a_former_leader_does_not_give_back_what_another_holds(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    first, second = contender("first"), contender("second")
    await first.acquire()
    await second.acquire()
    await first.release()
    assert _spec(cluster, namespace)["holderIdentity"] == "second"


async def test_of_many_that_start_at_once_exactly_one_leads(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    slow = LeaseTimes(duration=60, retry=0.1)
    contenders = [contender(f"replica-{number}", times=slow) for number in range(8)]
    waiting = await asyncio.gather(*(_waits(each, seconds=10) for each in contenders))
    assert waiting.count(False) == 1
    assert _spec(cluster, namespace)["holderIdentity"] == f"replica-{waiting.index(False)}"


async def test_a_replica_that_restarts_under_its_name_goes_on_leading(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    slow = LeaseTimes(duration=60, retry=0.1)
    await contender("first", times=slow).acquire()
    assert not await _waits(contender("first", times=slow), seconds=30)
    assert _spec(cluster, namespace)["leaseTransitions"] == 0


async def test_a_lease_that_somebody_deletes_is_made_again_by_its_leader(
    cluster: Cluster, namespace: str, contender: Contender
) -> None:
    leader = contender("first")
    await leader.acquire()
    async with _kept(leader):
        await asyncio.to_thread(cluster.kubectl, "delete", "lease", "leader", f"--namespace={namespace}")
        async with asyncio.timeout(10):
            await _made_again(cluster, namespace)
    assert _spec(cluster, namespace)["holderIdentity"] == "first"


async def test_a_leader_cut_off_from_the_api_server_stops_before_another_can_start(
    control_plane: ControlPlane, contender: Contender
) -> None:
    leader = contender("first")
    await leader.acquire()
    acquired = time.monotonic()
    await asyncio.to_thread(control_plane.stop_api_server, kill=True)
    try:
        with pytest.raises(LeadershipLost, match="does not answer"):
            await leader.keep()
        assert time.monotonic() - acquired < FAST.duration
    finally:
        await asyncio.to_thread(control_plane.start_api_server)


async def test_without_an_api_server_one_waits_and_gives_nothing_back(port_of_nobody: int) -> None:
    async with connected_to(f"http://127.0.0.1:{port_of_nobody}") as client:
        lonely = Leadership(client, namespace="nowhere", name="leader", identity="first", times=FAST)
        assert await _waits(lonely, seconds=0.5)
        await lonely.release()
