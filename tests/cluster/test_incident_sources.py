"""IncidentSource objects on a real API server: what their status says, and what alerts do that they let in."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from formulary_operator.api.names import EVENTS, INCIDENT_SOURCES
from support.alerts import TOKEN, alert, body
from support.cluster import OperatorAccount, condition, fetch, objects
from support.control_plane import Cluster
from support.operator_process import Daemon, operator
from support.services import open_parts
from support.serving import serving
from support.waiting import wait_until

SIGNED = {"Authorization": f"Bearer {TOKEN}"}


def source(name: str, *namespaces: str, secret: str = "alerts", **spec: Any) -> dict[str, Any]:
    auth = {"auth": {"secretRef": {"name": secret}}} if secret else {}
    given = {"type": "alertmanager", "namespaces": [*namespaces], **auth, **spec}
    return {
        "apiVersion": "formulary.dev/v1alpha1",
        "kind": "IncidentSource",
        "metadata": {"name": name},
        "spec": given,
    }


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, shared_namespace: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    """An operator of one namespace, which is not the shared one of its catalog."""
    with operator(
        dsn=dsn,
        kubeconfig=operator_account.kubeconfig,
        watch_namespaces=shared_namespace,
        catalog_namespace="platform",
    ) as daemon:
        daemon.start().wait_ready()
        yield daemon
        assert daemon.crashes() == []


def await_reason(cluster: Cluster, name: str, kind: str, reason: str, *, namespace: str) -> str:
    """The message of a condition once it has this reason."""

    def said() -> dict[str, Any]:
        found = objects(cluster, INCIDENT_SOURCES, namespace=namespace)
        return condition(next((each for each in found if each["metadata"]["name"] == name), {}), kind)

    wait_until(lambda: said().get("reason") == reason, what=f"{name} to be {reason}", shown=lambda: str(said()))
    return str(said()["message"])


def test_a_source_takes_alerts_about_its_own_namespace_and_says_which_it_could_not_use(
    cluster: Cluster, dsn: str, shared_namespace: str, running: Daemon
) -> None:
    ns = shared_namespace
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alerts"}, "stringData": {"token": TOKEN}}
    cluster.apply(
        secret,
        source("mine", ns),
        source("foreign", "team-b"),
        source("open", ns, secret=""),
        source("missing", ns, secret="nothing"),
        source("misspelt", ns, targt={}),
        namespace=ns,
    )

    assert f"POST /api/v1/incidents/{ns}/mine" in await_reason(cluster, "mine", "Ready", "Receiving", namespace=ns)
    assert "may not speak for namespace team-b" in await_reason(
        cluster, "foreign", "Ready", "NamespaceNotAllowed", namespace=ns
    )
    await_reason(cluster, "open", "Ready", "AuthMissing", namespace=ns)
    await_reason(cluster, "missing", "Ready", "SecretMissing", namespace=ns)
    assert "did you mean target?" in await_reason(cluster, "misspelt", "Ready", "Invalid", namespace=ns)

    message = body(alert("c0ffee", namespace=ns), alert("f0f0f0", namespace="team-b"))
    names = ("mine", "foreign", "open", "missing", "misspelt")

    async def post() -> list[int]:
        async with open_parts(dsn) as parts, serving(parts) as url, httpx2.AsyncClient(base_url=url) as http:
            addresses = [f"/api/v1/incidents/{ns}/{name}" for name in names]
            return [(await http.post(each, json=message, headers=SIGNED)).status_code for each in addresses]

    assert asyncio.run(post()) == [200, 401, 401, 401, 401]
    assert fetch(dsn, "select fingerprint from formulary.alert") == [("c0ffee",)]
    said = await_reason(cluster, "mine", "Mapped", "Unmapped", namespace=ns)
    assert "alert f0f0f0: its target team-b/Deployment/web is in namespace team-b" in said
    wait_until(
        lambda: any(each["reason"] == "Unmapped" for each in objects(cluster, EVENTS, namespace=ns)),
        what="an Event about the alert that became nothing",
    )

    cluster.kubectl("delete", "incidentsource", "mine", "--namespace", ns)
    wait_until(
        lambda: not fetch(dsn, "select from formulary.alert where firing"), what="the incidents of the source to end"
    )
