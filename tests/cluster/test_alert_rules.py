"""Alerts from the PrometheusRule objects of a real API server."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from formulary_catalog.domain.access import LIST_RULES, SEE_WORKFLOWS, Right
from formulary_catalog.domain.coverage.alerts import MAX_ALERTS, NO_REMEDY
from formulary_catalog.store.alert_rules import AlertRuleWriter
from formulary_catalog.store.database.connection import Database
from formulary_operator.api.names import PROMETHEUS_RULES
from formulary_operator.knowledge import alert_rules
from formulary_operator.knowledge.alert_rules import EVERYWHERE, AlertRules
from formulary_operator.kube.client import KubeClient
from support.cluster import OperatorAccount, delete_all
from support.commands import formulary_now
from support.control_plane import Cluster
from support.kube_clients import connected
from support.operator_process import operator, server
from support.waiting import wait_until

CRD = f"{PROMETHEUS_RULES.plural}.{PROMETHEUS_RULES.group}"
KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD},
    "spec": {
        "group": PROMETHEUS_RULES.group,
        "scope": "Namespaced",
        "names": {"plural": PROMETHEUS_RULES.plural, "singular": "prometheusrule", "kind": PROMETHEUS_RULES.kind},
        "versions": [
            {
                "name": PROMETHEUS_RULES.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kind(cluster: Cluster) -> Iterator[None]:
    """The kind, as the operator of Prometheus brings it."""
    _install(cluster)
    yield
    cluster.kubectl("delete", "crd", CRD)


@pytest.fixture
def place(cluster: Cluster, kind: None, namespace: str) -> Iterator[str]:
    """A namespace whose rules go at the end."""
    yield namespace
    delete_all(cluster, PROMETHEUS_RULES, namespace=namespace)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with connected(cluster.kubeconfig) as connection:
        yield connection


def _install(cluster: Cluster) -> None:
    cluster.apply(KIND)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{CRD}")


def _rule(alert: str, **more: Any) -> dict[str, Any]:
    return {"alert": alert, "expr": "vector(1)", **more}


def _apply(cluster: Cluster, namespace: str, name: str, *rules: dict[str, Any]) -> None:
    document = {
        "apiVersion": PROMETHEUS_RULES.api_version,
        "kind": PROMETHEUS_RULES.kind,
        "metadata": {"name": name},
        "spec": {"groups": [{"name": name, "rules": list(rules)}]},
    }
    cluster.apply(document, namespace=namespace)


async def _stored(writing: Database) -> list[tuple[str, ...]]:
    rows = await writing.fetch("select object, name, severity, summary, ignored from alert_rule order by object, name")
    return [tuple(row) for row in rows]


async def _names(writing: Database) -> list[str]:
    return [row[1] for row in await _stored(writing)]


def _rules(client: KubeClient, writing: Database, *namespaces: str, max_alerts: int = MAX_ALERTS) -> AlertRules:
    return AlertRules(namespaces=namespaces, client=client, writer=AlertRuleWriter(writing), max_alerts=max_alerts)


@pytest.mark.smoke
async def test_alerts_are_there_as_long_as_their_object_defines_them(
    cluster: Cluster, place: str, client: KubeClient, writing: Database
) -> None:
    annotations = {"summary": "Nobody can buy {{ $labels.what }}."}
    _apply(
        cluster,
        place,
        "shop",
        {"record": "shop:requests", "expr": "sum(x)"},
        _rule("ShopIsDown", labels={"severity": "critical"}, annotations=annotations),
        _rule("Watchdog", annotations={"formulary_no_remedy": "always fires"}),
    )
    rules = _rules(client, writing, *EVERYWHERE)
    await rules.compare()
    assert await _stored(writing) == [
        ("shop", "ShopIsDown", "critical", "Nobody can buy .", ""),
        ("shop", "Watchdog", "", "", "always fires"),
    ]

    _apply(cluster, place, "shop", _rule("ShopIsSlow"))
    _apply(cluster, place, "bank", _rule("VaultSealed"))
    await rules.compare()
    assert await _names(writing) == ["VaultSealed", "ShopIsSlow"]

    cluster.kubectl("delete", CRD, "shop", f"--namespace={place}")
    await rules.compare()
    assert await _names(writing) == ["VaultSealed"]


async def test_only_what_changed_is_read_again(
    cluster: Cluster, place: str, client: KubeClient, writing: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        _apply(cluster, place, name, _rule(name.upper()))
    rules = _rules(client, writing, place)
    await rules.compare()
    read: list[str] = []
    listed = client.listed

    async def noted(path: str, *, name: str) -> Any:
        read.append(name)
        return await listed(path, name=name)

    monkeypatch.setattr(client, "listed", noted)
    await rules.compare()
    assert read == []
    _apply(cluster, place, "b", _rule("C"))
    await rules.compare()
    assert (read, await _names(writing)) == (["b"], ["A", "C"])


async def test_more_objects_than_one_page_are_all_read_and_rules_of_other_namespaces_are_not(
    cluster: Cluster, place: str, client: KubeClient, writing: Database
) -> None:
    for number in range(23):
        _apply(cluster, place, f"rule-{number:02d}", _rule(f"A{number:02d}"))
    await _rules(client, writing, place).compare()
    assert await _names(writing) == [f"A{number:02d}" for number in range(23)]
    await _rules(client, writing, "default").compare()
    assert await _names(writing) == []


async def test_switched_off_nothing_is_kept(
    cluster: Cluster, place: str, client: KubeClient, writing: Database
) -> None:
    _apply(cluster, place, "shop", _rule("ShopIsDown"))
    await _rules(client, writing, *EVERYWHERE).compare()
    await _rules(client, writing).compare()
    assert await _names(writing) == []


@pytest.mark.smoke
async def test_without_the_right_to_list_what_is_known_stays_and_it_is_said_once(
    cluster: Cluster, place: str, client: KubeClient, operator_account: OperatorAccount, writing: Database
) -> None:
    _apply(cluster, place, "shop", _rule("ShopIsDown"))
    await _rules(client, writing, place).compare()
    for namespaces in ((place,), EVERYWHERE):
        async with connected(operator_account.kubeconfig) as without_rights:
            rules = _rules(without_rights, writing, *namespaces)
            with capture_logs() as logs:
                await rules.compare()
                await rules.compare()
        assert [each["event"] for each in logs] == ["alert_rules_not_listed"]
        assert await _names(writing) == ["ShopIsDown"]


async def test_alerts_beyond_the_bound_are_left_out_in_the_order_of_objects_until_there_is_room(
    cluster: Cluster, place: str, client: KubeClient, writing: Database
) -> None:
    for name in ("a", "b", "c"):
        _apply(cluster, place, name, *(_rule(f"{name.upper()}{number}") for number in range(2)))
    rules = _rules(client, writing, place, max_alerts=5)
    with capture_logs() as logs:
        for _ in range(2):
            await rules.compare()
            assert await _names(writing) == ["A0", "A1", "B0", "B1", "C0"]
    assert _left_out(logs) == [(place, 6, 5)]
    _apply(cluster, place, "a", _rule("A0"))
    await rules.compare()
    assert await _names(writing) == ["A0", "B0", "B1", "C0", "C1"]


@pytest.mark.parametrize("crowded_first", [True, False])
async def test_a_namespace_with_very_many_rules_leaves_others_their_share(
    cluster: Cluster, place: str, client: KubeClient, writing: Database, crowded_first: bool
) -> None:
    other = f"{place}-more"
    few, many = (other, place) if crowded_first else (place, other)
    cluster.create_namespace(other)
    _apply(cluster, many, "many", *(_rule(f"Many{number}") for number in range(9)))
    _apply(cluster, few, "few", _rule("Few0"), _rule("Few1"))
    rules = _rules(client, writing, *EVERYWHERE, max_alerts=6)
    with capture_logs() as logs:
        for _ in range(2):
            await rules.compare()
            assert sorted(await _names(writing)) == ["Few0", "Few1", "Many0", "Many1", "Many2", "Many3"]
    assert _left_out(logs) == [(many, 9, 4)]

    _apply(cluster, few, "more", *(_rule(f"More{number}") for number in range(3)))
    with capture_logs() as logs:
        await rules.compare()
    assert sorted(await _names(writing)) == ["Few0", "Few1", "Many0", "Many1", "Many2", "More0"]
    assert _left_out(logs) == sorted([(few, 5, 3), (many, 9, 3)])

    delete_all(cluster, PROMETHEUS_RULES, namespace=other)
    await rules.compare()
    assert len(await _names(writing)) == (6 if crowded_first else 5)


def _left_out(logs: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    assert {each["event"] for each in logs} <= {"alert_rules_too_many", "alert_rules_removed"}
    return [
        (each["namespace"], each["alerts"], each["kept"]) for each in logs if each["event"] == "alert_rules_too_many"
    ]


async def test_broken_and_huge_objects_are_skipped_with_a_word_and_others_are_read(
    cluster: Cluster, place: str, client: KubeClient, writing: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_rules, "MAX_BYTES", 1000)
    _apply(cluster, place, "a-nul", _rule("Bad\0Name"))
    _apply(cluster, place, "b-huge", _rule("Huge", annotations={"summary": "x" * 1000}))
    _apply(cluster, place, "c-odd", _rule("Odd", labels=["no", "map"], annotations=7), {"alert": 5}, {"alert": " "})
    with capture_logs() as logs:
        await _rules(client, writing, place).compare()
    assert await _names(writing) == ["Odd"]
    assert [(each["event"], each["object"]) for each in logs] == [
        ("alert_rules_rejected", f"{place}/a-nul"),
        ("alert_rules_too_large", f"{place}/b-huge"),
    ]


async def test_without_the_kind_nothing_is_kept_and_it_is_said_once(
    cluster: Cluster, place: str, client: KubeClient, writing: Database
) -> None:
    _apply(cluster, place, "shop", _rule("ShopIsDown"))
    rules = _rules(client, writing, *EVERYWHERE)
    await rules.compare()
    cluster.kubectl("delete", "crd", CRD)
    with capture_logs() as logs:
        await rules.compare()
        await rules.compare()
    _install(cluster)
    assert await _names(writing) == []
    assert [each["event"] for each in logs] == ["alert_rules_not_listed", "alert_rules_removed"]


def _bind(cluster: Cluster, role: str, *, account: str, of: str, namespace: str = "") -> str:
    """Give a ServiceAccount the rights of a ClusterRole, in a namespace or everywhere; what binds them."""
    rbac = "rbac.authorization.k8s.io"
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    name = f"rules-{account}-{role.replace(':', '-')}"
    cluster.apply(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": kind,
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of}],
        },
        namespace=namespace or "default",
    )
    return f"{kind.lower()}/{name}"


def _role(cluster: Cluster, name: str, right: Right) -> str:
    rule = {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    cluster.apply({**kind, "metadata": {"name": name}, "rules": [rule]})
    return name


def test_people_compare_the_alerts_of_a_cluster_that_they_may_list_there(
    cluster: Cluster, place: str, database: str, operator_account: OperatorAccount
) -> None:
    bank = f"{place}-bank"
    tokens = {name: cluster.service_account(place, name) for name in ("ann", "ben")}
    cluster.create_namespace(bank)
    cluster.create_namespace("formulary")
    _apply(cluster, place, "shop", _rule("ShopIsDown"), _rule("Watchdog", annotations={NO_REMEDY: "always fires"}))
    _apply(cluster, bank, "bank", _rule("VaultSealed", labels={"severity": "critical"}))
    see, listing = _role(cluster, "rules-see", SEE_WORKFLOWS), _role(cluster, "rules-list", LIST_RULES)
    for name, namespace in (("ann", place), ("ben", bank)):
        _bind(cluster, see, account=name, of=place, namespace="formulary")
        _bind(cluster, listing, account=name, of=place, namespace=namespace)
    binding = _bind(cluster, listing, account="operator", of=operator_account.namespace)
    cluster.service_account("formulary", "server", audiences=[])
    _bind(cluster, "system:auth-delegator", account="server", of="formulary")
    reviewer = cluster.kubeconfig_for(cluster.service_account("formulary", "server", audiences=[]))
    with (
        operator(dsn=database, kubeconfig=operator_account.kubeconfig, prometheus_rules="true") as operating,
        server(dsn=database, kubeconfig=reviewer, authentication="kubernetes") as serving,
    ):
        operating.start().wait_ready()
        serving.start().wait_ready()
        counted = partial(serving.metric, "formulary_alerts")
        wait_until(partial(counted, state="none"), what="the alerts to be counted", seconds=150)
        answers = {
            name: formulary_now("coverage", FORMULARY_URL=serving.url, FORMULARY_TOKEN=token)
            for name, token in tokens.items()
        }
        totals = [counted(state=state) for state in ("none", "ignored")]
    cluster.kubectl("delete", binding)
    delete_all(cluster, PROMETHEUS_RULES, namespace=bank)
    assert totals == [2, 1]
    assert re.search(rf"none +ShopIsDown .*{place}/shop", answers["ann"].out)
    assert "alerts of the cluster: 0 covered, 0 weak, 1 none, 1 ignored" in answers["ann"].out
    assert "VaultSealed" not in answers["ann"].out
    assert re.search(rf"none +VaultSealed +critical .*{bank}/bank", answers["ben"].out)
    assert "ShopIsDown" not in answers["ben"].out
