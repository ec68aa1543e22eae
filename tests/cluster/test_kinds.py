"""The kinds themselves come late, or vanish and come back: the operator waits, or says so and begins anew."""

import copy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_operator.api.crds import CRDS as KINDS
from formulary_operator.api.names import WORKFLOWS
from support import control_plane as planes
from support import databases
from support.cluster import await_agreement, install_kinds, new_operator_account, objects
from support.control_plane import ControlPlane
from support.manifest import workflow
from support.operator_process import operator
from support.waiting import wait_until

CRDS = Path(__file__).parents[2] / "crds"
NAMESPACE = "payments"


@pytest.fixture
def bare() -> Iterator[ControlPlane]:
    """An API server that does not know our kinds."""
    with planes.control_plane() as running:
        running.create_namespace(NAMESPACE)
        yield running


@pytest.fixture
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with databases.migrated_database(postgres) as dsn:
        yield dsn


def test_an_operator_waits_for_its_crds_and_recovers_when_they_are_made_anew(bare: ControlPlane, dsn: str) -> None:
    account = new_operator_account(bare)
    with operator(dsn=dsn, kubeconfig=account.kubeconfig, resync_seconds="3600") as daemon:
        daemon.start()
        wait_until(lambda: daemon.events("waiting_for_crd"), what="the wait to be told", shown=daemon.output)
        assert not daemon.is_ready()
        install_kinds(bare, CRDS)
        daemon.wait_ready()
        bare.apply(workflow("first"), namespace=NAMESPACE)
        await_agreement(bare, dsn, NAMESPACE)

        bare.kubectl("delete", "--filename", str(CRDS))
        process = daemon.process
        assert process is not None
        wait_until(lambda: process.poll() is not None, what="it to give up", shown=daemon.output)
        assert (process.returncode, len(daemon.events("watch_lost"))) == (3, 1)

        install_kinds(bare, CRDS)
        bare.apply(workflow("second"), namespace=NAMESPACE)
        daemon.start().wait_ready()
        await_agreement(bare, dsn, NAMESPACE)


def test_a_field_that_objects_lack_is_written_once_the_crd_has_it_and_then_never_again(
    bare: ControlPlane, dsn: str
) -> None:
    """As after an upgrade to a release that adds a field of the status, the CRD of which is applied later."""
    account = new_operator_account(bare)
    install_kinds(bare, CRDS)
    kind = KINDS[f"{WORKFLOWS.group}_{WORKFLOWS.plural}.yaml"].definition()
    former = copy.deepcopy(kind)
    del former["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["indexedAt"]
    bare.apply(former)
    bare.apply(workflow("first"), workflow("second"), namespace=NAMESPACE)
    with operator(dsn=dsn, kubeconfig=account.kubeconfig, resync_seconds="1") as daemon:

        def written() -> int:
            """How many statuses were written, as seen after some more resyncs."""
            before = len(daemon.events("resynced"))
            wait_until(lambda: len(daemon.events("resynced")) > before + 2, what="a few resyncs", shown=daemon.output)
            return len(bare.requests(user=account.user, verbs=["patch"], resource=WORKFLOWS.plural))

        daemon.start().wait_ready()
        await_agreement(bare, dsn, NAMESPACE)
        assert written() == 2
        assert not any("indexedAt" in each["status"] for each in objects(bare, WORKFLOWS, namespace=NAMESPACE))

        bare.apply(kind)
        wait_until(
            lambda: all("indexedAt" in each["status"] for each in objects(bare, WORKFLOWS, namespace=NAMESPACE)),
            what="the field that the CRD has now",
            shown=daemon.output,
        )
        settled = written()
        assert written() == settled
