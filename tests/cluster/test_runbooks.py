"""Runbooks from the ConfigMaps of a real API server."""

from collections.abc import AsyncIterator

import pytest

from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.knowledge.runbooks import RunbookWriter
from formulary_operator.knowledge.runbooks import LABEL, MAX_NAMESPACE_BYTES, Runbooks
from formulary_operator.kube.client import KubeClient
from support.cluster import OperatorAccount
from support.control_plane import Cluster
from support.kube_clients import connected


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with connected(cluster.kubeconfig) as connection:
        yield connection


def _apply(cluster: Cluster, namespace: str, name: str, files: dict[str, str], *, label: str = "true") -> None:
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: label}}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}, namespace=namespace)


async def _stored(writing: Database) -> dict[str, str]:
    async def read(connection: Connection) -> dict[str, str]:
        rows = await connection.fetch("select source_file, text from knowledge_document")
        return {row["source_file"]: row["text"] for row in rows}

    return await writing.read(read)


def _runbooks(
    client: KubeClient, writing: Database, *namespaces: str, max_bytes: int = MAX_NAMESPACE_BYTES
) -> Runbooks:
    return Runbooks(namespaces=namespaces, client=client, writer=RunbookWriter(writing), max_bytes=max_bytes)


@pytest.mark.smoke
async def test_labelled_config_maps_are_runbooks_as_long_as_they_are_there(
    cluster: Cluster, namespace: str, client: KubeClient, writing: Database
) -> None:
    _apply(cluster, namespace, "disk", {"disk.md": "# Disk\n\nfull\n", "note.txt": "no runbook"})
    _apply(cluster, namespace, "other", {"other.md": "# Other\n\nwords\n"}, label="false")
    runbooks = _runbooks(client, writing, namespace)
    await runbooks.compare()
    source = f"configmap://{namespace}/disk/disk.md"
    assert await _stored(writing) == {source: "full"}

    _apply(cluster, namespace, "disk", {"disk.md": "# Disk\n\nempty\n"})
    await runbooks.compare()
    assert await _stored(writing) == {source: "empty"}

    cluster.kubectl("delete", "configmap", "disk", f"--namespace={namespace}")
    await runbooks.compare()
    assert await _stored(writing) == {}


async def test_a_file_that_is_refused_leaves_what_it_gave_before_and_others_alone(
    cluster: Cluster, namespace: str, client: KubeClient, writing: Database
) -> None:
    runbooks = _runbooks(client, writing, namespace)
    _apply(cluster, namespace, "all", {"a.md": "# A\n\nfirst\n", "b.md": "# B\n\nfirst\n"})
    await runbooks.compare()
    _apply(cluster, namespace, "all", {"a.md": "# a\n\nb\n\n" * 1001, "b.md": "# B\n\nsecond\n"})
    await runbooks.compare()
    assert sorted((await _stored(writing)).values()) == ["first", "second"]


async def test_where_the_operator_may_not_list_nothing_is_removed(
    cluster: Cluster, namespace: str, client: KubeClient, operator_account: OperatorAccount, writing: Database
) -> None:
    _apply(cluster, namespace, "disk", {"disk.md": "# Disk\n\nfull\n"})
    await _runbooks(client, writing, namespace).compare()
    async with connected(operator_account.kubeconfig) as without_rights:
        await _runbooks(without_rights, writing, namespace).compare()
    assert list((await _stored(writing)).values()) == ["full"]


async def test_runbooks_of_a_namespace_that_is_no_longer_listed_go(
    cluster: Cluster, namespace: str, client: KubeClient, writing: Database
) -> None:
    _apply(cluster, namespace, "disk", {"disk.md": "# Disk\n\nfull\n"})
    await _runbooks(client, writing, namespace).compare()
    await _runbooks(client, writing).compare()
    assert await _stored(writing) == {}


async def test_more_config_maps_than_one_page_are_all_runbooks(
    cluster: Cluster, namespace: str, client: KubeClient, writing: Database
) -> None:
    names = [f"book-{number:02d}" for number in range(23)]
    for name in names:
        _apply(cluster, namespace, name, {"a.md": f"# A\n\n{name}\n"})
    runbooks = _runbooks(client, writing, namespace)
    await runbooks.compare()
    assert sorted((await _stored(writing)).values()) == names

    cluster.kubectl("delete", "configmap", "book-22", f"--namespace={namespace}")
    await runbooks.compare()
    assert sorted((await _stored(writing)).values()) == names[:-1]


async def test_config_maps_that_together_are_too_large_leave_out_the_last_until_there_is_room(
    cluster: Cluster, namespace: str, client: KubeClient, writing: Database
) -> None:
    for name in ("a", "b", "c"):
        _apply(cluster, namespace, name, {"book.md": f"# Book\n\n{name * 90}\n"})
    runbooks = _runbooks(client, writing, namespace, max_bytes=250)
    for _ in range(2):
        await runbooks.compare()
        assert sorted((await _stored(writing)).values()) == ["a" * 90, "b" * 90]

    _apply(cluster, namespace, "a", {"book.md": "# Book\n\na\n"})
    await runbooks.compare()
    assert sorted((await _stored(writing)).values()) == ["a", "b" * 90, "c" * 90]
