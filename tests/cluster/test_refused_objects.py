"""What the operator refuses is listed to people with its reason, until it is repaired or gone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from support.access import KnownCallers, Rights
from support.cluster import OperatorAccount, await_agreement, fetch
from support.control_plane import Cluster
from support.manifest import workflow
from support.operator_process import Daemon, operator
from support.pages import page_of
from support.services import open_parts
from support.serving import serving
from support.waiting import wait_until


@pytest.fixture
def daemon(database: str, operator_account: OperatorAccount, namespace: str) -> Iterator[Daemon]:
    """An operator for the namespace of one test, which resyncs only when it starts."""
    with operator(
        dsn=database, kubeconfig=operator_account.kubeconfig, watch_namespaces=namespace, resync_seconds="3600"
    ) as running:
        running.start().wait_ready()
        yield running


@pytest.fixture
async def url(database: str, namespace: str) -> AsyncIterator[str]:
    """A server on the same database that knows who may list workflows in the namespace, and who elsewhere."""
    callers = KnownCallers(ours=Rights(see={namespace}), theirs=Rights(see={"formulary"}))
    async with open_parts(database) as parts, serving(parts, authenticator=callers) as at:
        yield at


def wrong(name: str) -> dict[str, Any]:
    document = workflow(name)
    document["spec"]["labels"]["severity"] = 1
    return document


def get(url: str, path: str, *, by: str = "ours") -> httpx2.Response:
    return httpx2.get(f"{url}{path}", headers={"Authorization": f"Bearer {by}"}, timeout=30)


def refused(url: str, *, by: str = "ours") -> dict[str, Any]:
    """The refused objects that somebody sees, by name."""
    response = get(url, "/api/v1/refused", by=by)
    # Who may list in a namespace without any workflow or refusal yet may list nowhere that the catalog knows.
    return {line["name"]: line for line in response.json()["refused"]} if response.status_code == 200 else {}


def reasons(url: str) -> dict[str, str]:
    return {name: line["reason"] for name, line in refused(url).items()}


async def test_a_refused_object_is_listed_with_its_reason_until_it_is_repaired_or_gone(
    cluster: Cluster, namespace: str, database: str, daemon: Daemon, url: str
) -> None:
    def scenario() -> None:
        cluster.apply(wrong("wrong"), workflow("fixed"), workflow("good"), namespace=namespace)
        wait_until(lambda: reasons(url) == {"wrong": "Invalid"}, what="the refusal", shown=daemon.output)
        await_agreement(cluster, database, namespace)
        cluster.apply(workflow("fixed", what="Something else."), namespace=namespace)
        both = {"wrong": "Invalid", "fixed": "VersionImmutable"}
        wait_until(lambda: reasons(url) == both, what="both refusals", shown=daemon.output)

        found = refused(url)
        assert "spec.labels.severity" in found["wrong"]["message"]
        assert "version 1.0.0 stays served" in found["fixed"]["message"]
        assert found["fixed"]["version"] == "1.0.0"
        command = found["wrong"]["next_step"].partition("kubectl ")[2]
        assert "spec.labels.severity" in cluster.kubectl(*command.split())
        page = page_of(get(url, "/console/catalog?status=Invalid").text)
        assert [row.attributes["data-refused"] for row in page.having("data-refused")] == [
            f"{namespace}/fixed",
            f"{namespace}/wrong",
        ]
        assert "spec.labels.severity" in page.words

        assert refused(url, by="theirs") == {}
        assert namespace not in get(url, "/console/catalog?status=Invalid", by="theirs").text

        cluster.apply(workflow("wrong"), namespace=namespace)
        wait_until(lambda: reasons(url) == {"fixed": "VersionImmutable"}, what="the repair", shown=daemon.output)
        cluster.kubectl("delete", "rw", "fixed", f"--namespace={namespace}")
        wait_until(lambda: reasons(url) == {}, what="the deletion", shown=daemon.output)
        await_agreement(cluster, database, namespace)

    await asyncio.to_thread(scenario)


async def test_a_resync_restores_what_is_refused_and_forgets_what_is_gone(
    cluster: Cluster, namespace: str, database: str, daemon: Daemon, url: str
) -> None:
    def scenario() -> None:
        cluster.apply(wrong("wrong"), wrong("goes"), wrong("repaired"), workflow("good"), namespace=namespace)
        three = {"wrong", "goes", "repaired"}
        wait_until(lambda: set(refused(url)) == three, what="the refusals", shown=daemon.output)
        await_agreement(cluster, database, namespace)
        before = refused(url)
        daemon.stop()
        cluster.kubectl("delete", "rw", "goes", f"--namespace={namespace}")
        cluster.apply(workflow("repaired"), namespace=namespace)
        fetch(database, "update formulary.refused_workflow set namespace = 'unwatched' where name = 'wrong'")
        daemon.start().wait_ready()

        assert refused(url) == {"wrong": before["wrong"]}
        assert fetch(database, "select namespace from formulary.refused_workflow") == [(namespace,)]
        await_agreement(cluster, database, namespace)
        # What the watch has queued already, such as what was repaired, does not count as drift.
        assert daemon.events("resynced")[0]["queued"] in (2, 3)
        daemon.stop()
        daemon.start().wait_ready()
        (resync,) = get(url, "/api/v1/health").json()["resyncs"]
        assert (resync["listed"], resync["differed"], resync["overdue"]) == (3, 0, False)
        assert resync["refused_sweep"] is None
        assert "3 objects listed, 0 differed" in page_of(get(url, "/console/health").text).words

    await asyncio.to_thread(scenario)


async def test_an_object_that_waits_for_its_deletion_is_over_and_differs_in_no_resync(
    cluster: Cluster, namespace: str, daemon: Daemon, url: str
) -> None:
    def scenario() -> None:
        documents = [wrong("refused"), workflow("served")]
        for document in documents:
            document["metadata"]["finalizers"] = ["example.com/held"]
        cluster.apply(*documents, namespace=namespace)
        wait_until(lambda: reasons(url) == {"refused": "Invalid"}, what="the refusal", shown=daemon.output)
        cluster.kubectl("delete", "rw", "refused", "served", "--wait=false", f"--namespace={namespace}")
        wait_until(lambda: reasons(url) == {}, what="the end of the refusal", shown=daemon.output)
        for _ in range(2):  # the first ends what the watch had not ended yet
            daemon.stop()
            daemon.start().wait_ready()
        (resync,) = get(url, "/api/v1/health").json()["resyncs"]
        assert (resync["listed"], resync["differed"]) == (2, 0)
        place = (f"--namespace={namespace}", "--type=merge")
        cluster.kubectl("patch", "rw", "refused", "served", *place, '--patch={"metadata":{"finalizers":null}}')

    await asyncio.to_thread(scenario)
