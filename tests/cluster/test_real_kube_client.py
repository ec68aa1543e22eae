"""Our client of the Kubernetes API on a real one: what is checked and not stored, chosen by label, and deleted."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from formulary_operator.api.names import INVOCATIONS, SECRETS
from formulary_operator.engines.job import JOBS
from formulary_operator.engines.tekton import PIPELINE_RUNS
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from support.control_plane import Cluster
from support.kube_clients import connected


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with connected(cluster.kubeconfig) as connection:
        yield connection


def secret(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}}


async def test_what_is_created_in_a_rehearsal_is_not_there(client: KubeClient, namespace: str) -> None:
    made = await client.create(SECRETS.path(namespace=namespace), secret("a"), dry_run=True)
    assert made["metadata"]["uid"]
    assert await client.get(SECRETS.path(namespace=namespace, name="a")) is None
    with pytest.raises(KubernetesRefused, match=r"metadata\.name"):
        await client.create(SECRETS.path(namespace=namespace), secret("Not A Name"), dry_run=True)


async def test_objects_are_selected_by_all_of_the_labels(client: KubeClient, namespace: str) -> None:
    for name, labels in (("a", {"x": "1", "y": "1"}), ("b", {"x": "1"})):
        await client.create(SECRETS.path(namespace=namespace), secret(name, **labels))
    found = await client.selected(SECRETS.path(namespace=namespace), labels={"x": "1", "y": "1"})
    assert [each["metadata"]["name"] for each in found] == ["a"]


@pytest.mark.smoke
async def test_only_the_object_that_is_meant_is_deleted(client: KubeClient, namespace: str) -> None:
    made = await client.create(SECRETS.path(namespace=namespace), secret("a"))
    path = SECRETS.path(namespace=namespace, name="a")
    assert not await client.delete(path, uid="00000000-0000-0000-0000-000000000000")
    assert await client.get(path) is not None
    assert await client.delete(path, uid=made["metadata"]["uid"])
    assert not await client.delete(path)
    assert await client.get(path) is None


async def test_it_is_known_which_kinds_the_cluster_offers(client: KubeClient) -> None:
    assert await client.offers(JOBS)
    assert await client.offers(INVOCATIONS)
    assert not await client.offers(PIPELINE_RUNS)
