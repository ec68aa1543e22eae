"""A real Prometheus and a real Alertmanager report to the server of a real cluster, as the chart runs it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from formulary_catalog.domain.access import SEE_WORKFLOWS, USE_CONTEXTS
from formulary_operator.api.names import INCIDENT_SOURCES
from support import charts
from support.agent import agent, answer_of
from support.alerting import RULE, Alerting, alerting
from support.alerts import TOKEN
from support.cluster import OperatorAccount, condition, fetch, objects
from support.cluster_runs import remedy, running_operator
from support.control_plane import Cluster
from support.operator_process import Daemon, server
from support.roles import bind, rbac
from support.waiting import wait_until

SEARCH = {"query": "restart oom raise", "top_k": 10}
POD = {"containers": [{"name": "app", "image": "registry.example/app:1"}]}
SELECTOR = {"matchLabels": {"app": "web"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alerts"}, "stringData": {"token": TOKEN}}


def deployment(name: str) -> dict[str, Any]:
    spec = {"selector": SELECTOR, "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def source(namespace: str) -> dict[str, Any]:
    """A source that maps nothing: kube-prometheus' labels need none."""
    spec = {"type": "alertmanager", "namespaces": [namespace], "auth": {"secretRef": {"name": "alerts"}}}
    metadata = {"name": "alerts"}
    return {"apiVersion": "formulary.dev/v1alpha1", "kind": "IncidentSource", "metadata": metadata, "spec": spec}


@pytest.mark.long
def test_what_prometheus_fires_repeats_and_resolves_is_one_incident_each_with_its_episodes(
    cluster: Cluster, database: str, namespace: str, operator_account: OperatorAccount
) -> None:
    cluster.kubectl("label", "namespace", namespace, "environment=production", "constraint.formulary.dev/restarts=no")
    cluster.apply(SECRET, source(namespace), *map(deployment, ("web", "api")), namespace=namespace)
    token = _agent(cluster, namespace)
    remedies = [remedy(f"oom-{each}", customLabels={"restarts": each}) for each in ("yes", "no")]
    with (
        running_operator(cluster, *remedies, dsn=database, namespace=namespace, account=operator_account),
        server(dsn=database, **_as_the_chart_does(cluster, namespace)) as serving,
        alerting(receiver=f"{serving.url}/api/v1/incidents/{namespace}/alerts", token=TOKEN) as world,
    ):
        serving.start().wait_ready()
        wait_until(lambda: _is_ready(cluster, namespace), what="the source to be ready")

        world.exporter.unavailable = {(namespace, "web"): 1, (namespace, "api"): 2}
        known = _await(database, {"web": (True, 1), "api": (True, 1)}, world=world)
        wait_until(lambda: min(_messages(database)) > 2, what="both alerts to be repeated")
        offered = {name: asyncio.run(_offered(serving, token, incident=f"al-{known[name]}")) for name in known}
        by_target = asyncio.run(_offered(serving, token, namespace=namespace))

        serving.kill()  # what happens meanwhile is sent again
        world.exporter.unavailable = {(namespace, "web"): 0, (namespace, "api"): 2}
        wait_until(lambda: {*world.fingerprints()} == {"api"}, what="one alert to resolve")
        serving.start().wait_ready()
        _await(database, {"web": (False, 1), "api": (True, 1)}, world=world)
        world.exporter.unavailable = {(namespace, "web"): 3, (namespace, "api"): 0}
        _await(database, {"web": (True, 2), "api": (False, 1)}, world=world)

    assert offered == {"web": ["oom-no"], "api": ["oom-no"]}
    assert by_target == ["oom-no"]
    assert fetch(database, "select fingerprint, signal_name, severity from formulary.alert order by 1") == [
        (fingerprint, RULE, "critical") for fingerprint in sorted(known.values())
    ]
    episodes = "select fingerprint, number, ended_at is null, began_at < ended_at from formulary.alert_episode"
    assert sorted(fetch(database, episodes)) == sorted(
        [(known["web"], 1, False, True), (known["web"], 2, True, None), (known["api"], 1, False, True)]
    )


def _agent(cluster: Cluster, namespace: str) -> str:
    """The token of an agent that may see workflows, use incidents and get Deployments there."""
    token = cluster.service_account(namespace, "agent")
    rights = [(right.group, right.resource, right.verb) for right in (SEE_WORKFLOWS, USE_CONTEXTS)]
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group, resource, verb in (*rights, ("apps", "deployments", "get"))
    ]
    cluster.apply(rbac("ClusterRole", f"{namespace}-agent", rules=rules))
    bind(cluster, f"{namespace}-agent", to=("agent", namespace), namespace=namespace)
    return token


def _as_the_chart_does(cluster: Cluster, namespace: str) -> Mapping[str, Any]:
    """The settings of a server that checks its callers and reads their targets."""
    token = cluster.service_account(namespace, "server", audiences=[])
    cluster.apply(rbac("ClusterRole", f"{namespace}-server", rules=charts.rules_of_targets()))
    for role in (f"{namespace}-server", "system:auth-delegator"):
        bind(cluster, role, to=("server", namespace))
    return {
        "kubeconfig": cluster.kubeconfig_for(token),
        "authentication": "kubernetes",
        "request_context": "required",
        "context_target": "kubernetes",
        "catalog_namespace": namespace,
    }


def _is_ready(cluster: Cluster, namespace: str) -> bool:
    found = objects(cluster, INCIDENT_SOURCES, namespace=namespace)
    return [condition(each).get("reason") for each in found] == ["Receiving"]


def _await(dsn: str, expected: Mapping[str, tuple[bool, int]], *, world: Alerting) -> dict[str, str]:
    """Wait until the alert of each Deployment fires or not, in this episode; their fingerprints."""
    said = "select target ->> 'name', firing, episode, fingerprint from formulary.alert"

    def seen() -> dict[str, tuple[bool, int]]:
        return {name: (firing, episode) for name, firing, episode, _ in fetch(dsn, said)}

    wait_until(lambda: seen() == expected, what=f"alerts to be {expected}", shown=lambda: str(seen()))
    found = {name: fingerprint for name, _, _, fingerprint in fetch(dsn, said)}
    fires = {name: found[name] for name, (firing, _) in expected.items() if firing}
    assert world.fingerprints() == fires
    return found


def _messages(dsn: str) -> list[int]:
    return [count for (count,) in fetch(dsn, "select messages from formulary.alert")]


async def _offered(serving: Daemon, token: str, *, incident: str = "", namespace: str = "") -> list[str]:
    """What the agent is offered for an alert, or for the Deployment `web`."""
    target = {"target_namespace": namespace, "target_kind": "Deployment", "target_name": "web"}
    path = f"/mcp?incident={incident}" if incident else "/mcp"
    async with agent(serving.url, headers={"Authorization": f"Bearer {token}"}, path=path) as client:
        found = await client.call_tool("search_workflow_catalog", SEARCH | ({} if incident else target))
    return [hit["workflow_id"].rpartition("/")[2] for hit in answer_of(found)["workflows"]]
