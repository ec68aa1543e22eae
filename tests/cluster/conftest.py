"""One real API server for the session, with our kinds, and a namespace for every test."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from formulary_operator.api.names import ANALYSES, WORKFLOWS
from support import control_plane as planes
from support.cluster import OperatorAccount, delete_all, install_kinds, new_operator_account
from support.control_plane import Cluster, ControlPlane

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


@pytest.fixture(scope="session")
def operator_account(cluster: Cluster) -> OperatorAccount:
    """Who the operators of the tests are."""
    return new_operator_account(cluster)


def _new_namespace(cluster: Cluster) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    yield name
    for resource in (WORKFLOWS, ANALYSES):
        delete_all(cluster, resource, namespace=name)
