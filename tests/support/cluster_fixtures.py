"""Fixtures of cluster and security tests: one real API server with our kinds, a namespace for every test."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.admission.validator import Validator
from formulary_operator.api.names import ANALYSES, APPROVALS, CONTRACTS, INVOCATIONS, PODS, WORKFLOWS
from formulary_operator.engines.job import JOBS
from formulary_operator.metrics import OperatorMetrics
from support import control_plane as planes
from support import databases
from support.admission import Place
from support.cluster import OperatorAccount, delete_all, install_kinds, new_operator_account
from support.control_plane import Cluster, ControlPlane
from support.kube_clients import connected

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """An API server that serves our kinds: one of our own, or that of `FORMULARY_TEST_KUBECONFIG`."""
    given = planes.given_kubeconfig()
    with planes.existing_cluster(given) if given else planes.control_plane() as running:
        install_kinds(running, CRDS)
        yield running


@pytest.fixture(scope="session")
def control_plane(cluster: Cluster) -> ControlPlane:
    """The same, for tests that stop it, read its audit log or use its keys."""
    if not isinstance(cluster, ControlPlane):
        pytest.skip("needs an API server of its own; FORMULARY_TEST_KUBECONFIG names an existing cluster")
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own; its objects of our kinds go at the end."""
    yield from _new_namespace(cluster)


@pytest.fixture(scope="module")
def shared_namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace that the tests of a module share."""
    yield from _new_namespace(cluster)


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The migrated database that the tests of a module share, as its owner."""
    async with databases.migrated_database(postgres) as created:
        yield created


@pytest.fixture(scope="session")
def operator_account(cluster: Cluster) -> OperatorAccount:
    """Who the operators of the tests are."""
    return new_operator_account(cluster)


@pytest.fixture
async def place(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Place]:
    """Where an admission webhook of this test's own judges."""
    labels = {"judged": namespace}
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
    async with connected(control_plane.kubeconfig) as client:
        yield Place(plane=control_plane, client=client, namespace=namespace)


@pytest.fixture
def judge(workflows: CatalogWriter, writing: Database, operator_account: OperatorAccount) -> Validator:
    """Who judges, with a catalog and records of this test's own."""
    return Validator(
        check=workflows.check,
        records=AdmissionRecords(writing),
        operator_user=operator_account.user,
        metrics=OperatorMetrics(),
    )


def _new_namespace(cluster: Cluster) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    yield name
    for resource in (WORKFLOWS, ANALYSES, INVOCATIONS, CONTRACTS, APPROVALS, JOBS, PODS):
        delete_all(cluster, resource, namespace=name)
