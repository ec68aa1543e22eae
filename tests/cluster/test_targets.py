"""What a call is about, read from a real API server under exactly the rights that the chart grants."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.targets.context import target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.reading import BUDGETS
from formulary_catalog.domain.targets.reference import KINDS, known_kind, parse_target
from formulary_catalog.errors import ContextError, Unavailable
from formulary_catalog.kernel.targets import TargetContexts
from formulary_operator.access.targets import KubernetesTargets
from support import charts
from support.agent import call, found
from support.cluster_runs import EVERYWHERE
from support.control_plane import Cluster, ControlPlane
from support.kube_clients import connected
from support.manifest import text, workflow
from support.process import formulary_up
from support.roles import bind, rbac
from support.waiting import wait_until

HOME = "formulary-context-test"
CALLER = Caller(name="agent", access=EVERYTHING)
POD = {"containers": [{"name": "app", "image": "registry.example/app:1"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "web"}}
JOB = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}


def _of(kind: str, name: str, *, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    known = known_kind(kind)
    api_version = known.api_version if known is not None else BUDGETS.api_version
    made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}
    return made if spec is None else {**made, "spec": spec}


def _owned_by(cluster: Cluster, kind: str, name: str, *, namespace: str) -> dict[str, Any]:
    owner = cluster.get(kind, name, f"--namespace={namespace}")
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": name, "uid": owner["metadata"]["uid"]}
    return {"ownerReferences": [{**reference, "controller": True}]}


def _is_served(cluster: Cluster, kind: str) -> bool:
    """The API server of the tests may be older than clusters are, and serve a kind in older versions alone."""
    known = known_kind(kind) or BUDGETS
    listed = cluster.kubectl("api-resources", "--no-headers", f"--api-group={known.group}")
    return any({known.api_version, kind} <= {*line.split()} for line in listed.splitlines())


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    return charts.rules_of_targets()


@pytest.fixture(scope="module")
def shop(cluster: Cluster, shared_namespace: str) -> Iterator[str]:
    """A namespace with one object of each kind."""
    namespace, node = shared_namespace, f"node-{shared_namespace}"
    cluster.kubectl("label", "namespace", namespace, "environment=production", "constraint.formulary.dev/restarts=no")
    cluster.apply(_of("Node", node, labels={"constraint.formulary.dev/rack": "r1"}))
    workloads = [
        _of("Deployment", "web", spec={"selector": SELECTOR, "template": TEMPLATE}, labels={"team": "shop"}),
        _of("StatefulSet", "db", spec={"selector": SELECTOR, "template": TEMPLATE, "serviceName": "db"}),
        _of("DaemonSet", "agent", spec={"selector": SELECTOR, "template": TEMPLATE}),
        _of("Job", "import", spec=JOB),
        _of("CronJob", "nightly", spec={"schedule": "0 0 * * *", "jobTemplate": {"spec": JOB}}),
        _of(
            "PersistentVolumeClaim",
            "data",
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        ),
        _of("Service", "web", spec={"ports": [{"port": 80, "protocol": "TCP"}]}),
        _of("Ingress", "web", spec={"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}),
        _of(
            "HorizontalPodAutoscaler",
            "web",
            spec={"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        ),
        _of("PodDisruptionBudget", "web", spec={"minAvailable": 1, "selector": SELECTOR}),
    ]
    cluster.apply(*(each for each in workloads if _is_served(cluster, each["kind"])), namespace=namespace)
    replicas = {"selector": SELECTOR, "template": TEMPLATE}
    owner = _owned_by(cluster, "deployment", "web", namespace=namespace)
    cluster.apply(_of("ReplicaSet", "web-a", spec=replicas, **owner), namespace=namespace)
    owner = _owned_by(cluster, "replicaset", "web-a", namespace=namespace)
    cluster.apply(
        _of("Pod", "web-a-1", spec={**POD, "nodeName": node}, labels={"app": "web"}, **owner), namespace=namespace
    )
    yield namespace
    cluster.kubectl("delete", "node", node, "--ignore-not-found")


@asynccontextmanager
async def _reading(cluster: Cluster, account: str, rules: list[dict[str, Any]]) -> AsyncIterator[KubernetesTargets]:
    """A reader with these rights and no others."""
    token = cluster.service_account(HOME, account, audiences=[])
    cluster.apply(rbac("ClusterRole", f"{HOME}-{account}", rules=rules))
    bind(cluster, f"{HOME}-{account}", to=(account, HOME))
    async with connected(cluster.kubeconfig_for(token)) as client:
        yield KubernetesTargets(client)


@pytest.fixture(scope="module")
async def reader(cluster: Cluster, rules: list[dict[str, Any]]) -> AsyncIterator[KubernetesTargets]:
    async with _reading(cluster, "context", rules) as opened:
        yield opened


def _targets(namespace: str) -> dict[str, str]:
    """A target of each kind that is read."""
    names = {
        "Pod": "web-a-1",
        "PersistentVolumeClaim": "data",
        "StatefulSet": "db",
        "DaemonSet": "agent",
        "ReplicaSet": "web-a",
        "Job": "import",
        "CronJob": "nightly",
    }
    placed = {each.kind: f"{namespace}/{each.kind}/{names.get(each.kind, 'web')}" for each in KINDS if each.namespaced}
    return placed | {"Namespace": f"Namespace/{namespace}", "Node": f"Node/node-{namespace}"}


async def test_what_owners_demand_of_a_pod_is_read_from_its_namespace_owners_and_node(
    cluster: Cluster, reader: KubernetesTargets, shop: str
) -> None:
    protected = "true" if _is_served(cluster, BUDGETS.kind) else ""
    context = await _context(reader, f"{shop}/Pod/web-a-1")

    assert context.environment == "production"
    assert context.custom_labels == {"restarts": ("no",), "team": ("shop",), "rack": ("r1",)}
    assert context.target_owners == ("ReplicaSet/web-a", "Deployment/web")
    assert context.target_selector == "app=web"
    facts = context.detected_labels
    assert (facts["hpaEnabled"], facts["pdbProtected"], facts["stateful"]) == ("true", protected, "false")
    assert (facts["gitOpsManaged"], facts["helmManaged"]) == ("false", "false")


@pytest.mark.parametrize("kind", [each.kind for each in KINDS if each.kind != "Node"])
async def test_every_kind_is_read_with_the_rights_of_the_chart(
    cluster: Cluster, reader: KubernetesTargets, shop: str, kind: str
) -> None:
    if not _is_served(cluster, kind):
        pytest.skip(f"this API server serves no {kind} in the version that is read")
    context = await _context(reader, _targets(shop)[kind])

    assert context.custom_labels["restarts"] == ("no",)


async def test_a_node_speaks_for_itself(reader: KubernetesTargets, shop: str) -> None:
    with pytest.raises(ContextError, match=r"kubectl label node \S+ formulary.dev/environment=VALUE"):
        await _context(reader, _targets(shop)["Node"])


async def test_of_another_kind_the_word_of_its_namespace_counts_alone(reader: KubernetesTargets, shop: str) -> None:
    context = await _context(reader, f"{shop}/remediationworkflow/anything")
    unknown = parse_target(f"{shop}/Spaceship/one")

    assert context.custom_labels == {"restarts": ("no",)}
    assert set(context.detected_labels.values()) == {""}
    with pytest.raises(ContextError, match="knows no kind Spaceship"):
        await reader.kind_of(unknown)


@pytest.mark.parametrize("kind", [each.kind for each in KINDS])
async def test_without_the_right_to_one_kind_it_is_no_target(
    cluster: Cluster, rules: list[dict[str, Any]], shop: str, kind: str
) -> None:
    known = known_kind(kind)
    assert known is not None
    fewer = [{**rule, "resources": [each for each in rule["resources"] if each != known.resource]} for rule in rules]
    assert fewer != rules
    fewer = [rule for rule in fewer if rule["resources"]]
    async with _reading(cluster, f"without-{known.resource}", fewer) as reader:
        with pytest.raises(ContextError, match=f"this server may not read {known.resource}"):
            await _context(reader, _targets(shop)[kind])


async def test_what_may_not_be_listed_is_unknown_and_not_false(cluster: Cluster, shop: str) -> None:
    fewer = [{**rule, "verbs": ["get"]} for rule in charts.rules_of_targets() if rule["verbs"] != ["list"]]
    async with _reading(cluster, "without-list", fewer) as reader:
        facts = (await _context(reader, f"{shop}/Pod/web-a-1")).detected_labels

    assert (facts["hpaEnabled"], facts["pdbProtected"]) == ("", "")


async def test_a_label_that_changes_is_obeyed_once_what_was_read_is_ten_seconds_old(
    cluster: Cluster, reader: KubernetesTargets, namespace: str
) -> None:
    now = [0.0]
    cluster.kubectl("label", "namespace", namespace, "environment=staging")
    cluster.apply(_of("Service", "web", spec={"ports": [{"port": 80, "protocol": "TCP"}]}), namespace=namespace)
    contexts = TargetContexts(reader, mapping=DEFAULT_MAPPING, clock=lambda: now[0])
    target = parse_target(f"{namespace}/Service/web")

    before = await contexts.context_of(target, caller=CALLER)
    cluster.kubectl("label", "namespace", namespace, "constraint.formulary.dev/restarts=no")
    kept = await contexts.context_of(target, caller=CALLER)
    now[0] += 10
    after = await contexts.context_of(target, caller=CALLER)

    assert before.custom_labels == kept.custom_labels == {}
    assert after.custom_labels == {"restarts": ("no",)}


@pytest.fixture
def own_kubeconfig(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A person's kubeconfig, whose current context leads nowhere; the name of the person in the cluster."""
    token = control_plane.service_account(HOME, "person", audiences=[])
    control_plane.apply(rbac("ClusterRole", f"{HOME}-person", rules=charts.rules_of_targets()))
    bind(control_plane, f"{HOME}-person", to=("person", HOME))
    config = yaml.safe_load(control_plane.kubeconfig_for(token).read_text())
    (right,) = config["contexts"]
    nowhere = {"name": "nowhere", "cluster": {"server": "https://127.0.0.1:9"}}
    config["clusters"].append(nowhere)
    config["contexts"] = [
        {**right, "name": "mine"},
        {"name": "other", "context": {**right["context"], "cluster": "nowhere"}},
    ]
    config["current-context"] = "other"
    (file := tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return f"system:serviceaccount:{HOME}:person"


async def test_on_a_laptop_labels_of_the_cluster_constrain_and_nothing_is_written_there(
    control_plane: ControlPlane, namespace: str, own_kubeconfig: str, tmp_path: Path
) -> None:
    control_plane.kubectl(
        "label", "namespace", namespace, "environment=production", "constraint.formulary.dev/restarts=no"
    )
    control_plane.apply(_of("Service", "web", spec={"ports": [{"port": 80, "protocol": "TCP"}]}), namespace=namespace)
    (tmp_path / "manifests").mkdir()
    workflows = [
        workflow(f"web-{each}", labels=EVERYWHERE, customLabels={"restarts": each}, what="The web does not answer.")
        for each in ("yes", "no")
    ]
    (tmp_path / "manifests" / "all.yaml").write_text(text(*workflows))
    named = {"target_namespace": namespace, "target_kind": "Service", "target_name": "web"}
    with formulary_up(
        "--cluster", "--context", "mine", data_dir=tmp_path / "data", manifests=[tmp_path / "manifests"]
    ) as up:
        asked = {"query": "web does not answer"}
        free = await call(up.url, "search_workflow_catalog", asked)
        bound = await call(up.url, "search_workflow_catalog", {**asked, **named})

    assert sorted(found(free)) == ["web-no", "web-yes"]
    assert found(bound) == ["web-no"]
    verbs = {each.verb for each in control_plane.requests(user=own_kubeconfig)}
    assert verbs <= {"get", "list"}
    assert "get" in verbs


async def test_while_the_api_server_is_away_nothing_is_assumed(
    control_plane: ControlPlane, reader: KubernetesTargets, shop: str
) -> None:
    control_plane.stop_api_server()
    try:
        with pytest.raises(Unavailable, match="the constraints of the target are not known"):
            await _context(reader, f"{shop}/Pod/web-a-1")
    finally:
        control_plane.start_api_server()
    wait_until(lambda: bool(control_plane.get("namespace", shop)), what="the API server")


async def _context(reader: KubernetesTargets, target: str) -> Any:
    reference = parse_target(target)
    surroundings = await reader.read(reference, kind=await reader.kind_of(reference))
    return target_context(surroundings, mapping=DEFAULT_MAPPING)
