"""The kinds themselves come late, or vanish and come back: the operator waits, or says so and begins anew."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import control_plane as planes
from support import databases
from support.cluster import await_agreement, install_kinds, new_operator_account
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
