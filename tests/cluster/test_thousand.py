"""Many workflows at once, and what a restart with all of them costs."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import asyncpg
import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.api.names import WORKFLOWS
from support import databases
from support.asking import search
from support.cluster import OperatorAccount, apply_many, await_agreement, delete_all
from support.control_plane import Cluster, ControlPlane
from support.manifest import workflow
from support.operator_process import Daemon, operator, server
from support.waiting import wait_until

SOON = 40  # seconds; `make bench-operator` measures it


@dataclass(frozen=True, slots=True)
class Size:
    """How many objects there are, and how often the operator restarts with them."""

    objects: int
    restarts: int


@pytest.fixture(
    scope="module",
    params=[pytest.param(Size(30, 1), id="thirty"), pytest.param(Size(1000, 3), id="thousand", marks=pytest.mark.long)],
)
def size(request: pytest.FixtureRequest) -> Size:
    """A thousand, or as few as show the same faults."""
    found: Size = request.param
    return found


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres, size: Size) -> AsyncIterator[str]:
    """The database of this module, one for each size."""
    async with databases.migrated_database(postgres) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def synced(
    cluster: Cluster, shared_namespace: str, dsn: str, operator_account: OperatorAccount, size: Size
) -> Iterator[Daemon]:
    """An operator that has just synced them."""
    with operator(
        dsn=dsn, kubeconfig=operator_account.kubeconfig, watch_namespaces=shared_namespace, resync_seconds="3600"
    ) as daemon:
        daemon.start().wait_ready()
        started = time.monotonic()
        names = [f"one-of-{size.objects}-{number}" for number in range(size.objects)]
        apply_many(cluster, map(workflow, names), namespace=shared_namespace)
        applied = time.monotonic()
        await_agreement(cluster, dsn, shared_namespace, seconds=120)
        print(f"applied in {applied - started:.1f} s, agreed {time.monotonic() - applied:.1f} s later")
        yield daemon
    delete_all(cluster, WORKFLOWS, namespace=shared_namespace)


def test_many_objects_applied_at_once_are_all_served(
    synced: Daemon,
    dsn: str,
    control_plane: ControlPlane,
    shared_namespace: str,
    operator_account: OperatorAccount,
    size: Size,
) -> None:
    with server(dsn=dsn) as serving:
        serving.start().wait_ready()
        assert search(serving.url, "one of many")["total_results"] == size.objects
    assert synced.metric("formulary_reconcile_total", outcome="failed") == 0
    assert synced.metric("formulary_queue_depth") == 0
    patched = [
        request.name
        for request in control_plane.requests(user=operator_account.user, verbs=["patch"])
        if request.namespace == shared_namespace and request.name.startswith(f"one-of-{size.objects}-")
    ]
    assert len(patched) == len(set(patched)) == size.objects


@pytest.mark.timeout(600)
def test_a_restart_embeds_nothing_patches_nothing_and_is_soon_ready(
    synced: Daemon, dsn: str, control_plane: ControlPlane, operator_account: OperatorAccount, size: Size
) -> None:
    wait_until(lambda: not _unranked_documents(dsn), what="the vectors of all sections", seconds=400)
    written = control_plane.requests(user=operator_account.user, verbs=["patch", "create"])
    seconds = []
    for _ in range(size.restarts):
        synced.stop()
        seconds.append(synced.start().wait_ready())
        wait_until(lambda: synced.metric("formulary_queue_depth") == 0, what="an empty queue")
        assert synced.metric("formulary_embeddings_total") == 0
        assert synced.metric("formulary_status_patches_total") == 0
        assert synced.metric("formulary_drift_objects", kind="remediationworkflows") == 0
    print("ready again after", *(f"{taken:.1f} s" for taken in seconds))
    assert control_plane.requests(user=operator_account.user, verbs=["patch", "create"]) == written
    assert min(seconds) <= SOON  # whoever else uses the machine can only make a restart slower


def _unranked_documents(dsn: str) -> int:
    """How many sections of workflows have no vector yet: they follow after the workflows themselves."""

    async def count() -> int:
        connection = await asyncpg.connect(dsn)
        try:
            return int(
                await connection.fetchval("select count(*) from formulary.knowledge_document where model_id is null")
            )
        finally:
            await connection.close()

    return asyncio.run(count())
