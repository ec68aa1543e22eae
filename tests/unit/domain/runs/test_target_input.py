"""What a run may act on whose constraints are those of a target."""

from dataclasses import replace
from typing import Any

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.target_input import bound_input, named_namespaces, named_objects
from formulary_catalog.domain.targets.context import target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.surroundings import ANY_PODS, pod_selector
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, WorkflowSpec
from formulary_catalog.errors import InvalidInput
from support.manifest import workflow
from support.targets import surroundings

POD = target_context(surroundings(selector="app=checkout"), mapping=DEFAULT_MAPPING)
CLAIM = replace(
    POD, target_kind="PersistentVolumeClaim", target_name="data", target_owners=(), target_node="", target_selector=""
)
NODE = replace(
    CLAIM, target_kind="Node", target_name="worker-1", target_namespace="", target_selector="", namespace="", name=""
)


def _spec(*names: str, command: str = "", **more: Any) -> WorkflowSpec:
    parameters = [
        {"name": each, "type": "string", "required": False, "description": "Which.", **more} for each in names
    ]
    steps = [{"name": "go", "command": command}]
    return RemediationWorkflow.model_validate(workflow("any", parameters=parameters, steps=steps)).spec


def _named(context: RequestContext, name: str, value: object, *, command: str = "") -> list[str]:
    """What a run names besides its target whose one parameter has this value."""
    return [str(each) for each in named_objects(_spec(name, command=command), {name: value}, context=context)]


def _bound(context: RequestContext, name: str, value: object = None, **more: Any) -> Any:
    """The value of one parameter of a run."""
    return bound_input(_spec(name, **more), {} if value is None else {name: value}, context=context).get(name)


@pytest.mark.parametrize("name", ["NAMESPACE", "DEPENDENCY_NAMESPACE", "SOURCE_NAMESPACE"])
def test_each_parameter_for_a_namespace_is_that_of_the_target(name: str) -> None:
    assert _bound(POD, name) == "shop"
    assert _bound(POD, name, "shop") == "shop"
    with pytest.raises(InvalidInput, match=f"input.{name} names another object"):
        _bound(POD, name, "bank")


def test_the_node_that_a_pod_runs_on_may_be_named_for_its_labels_were_read() -> None:
    assert _bound(POD, "NODE") == "worker-1"
    with pytest.raises(InvalidInput, match="give worker-1"):
        _bound(POD, "NODE", "worker-2")


def test_a_default_that_names_another_object_is_no_way_around_what_its_owners_demand() -> None:
    assert _bound(POD, "DEPLOYMENT", default="coredns") == "checkout"
    with pytest.raises(InvalidInput, match=r"input\.STATEFULSET names another object"):
        _bound(POD, "STATEFULSET", default="coredns")
    assert _bound(POD, "STATEFULSET") is None
    assert _bound(POD, "REPLICAS", default="2") is None


def test_a_run_about_a_namespace_is_about_no_workload_of_the_same_name() -> None:
    shop = replace(POD, target_kind="Namespace", target_name="shop", target_owners=())
    assert _bound(shop, "NAMESPACE") == "shop"
    for name in ("TARGET_NAME", "TARGET_RESOURCE_NAME", "WORKLOAD", "DEPLOYMENT", "DEPLOYMENT_NAME"):
        assert _bound(shop, name) is None
        with pytest.raises(InvalidInput, match=f"input.{name} names another object"):
            _bound(shop, name, "shop")


def test_a_default_in_another_namespace_is_refused_rather_than_moved_to_that_of_the_target() -> None:
    assert _bound(POD, "NAMESPACE", default="kube-system") == "shop"
    with pytest.raises(InvalidInput, match=r"input\.METRICS_NAMESPACE names another object"):
        _bound(POD, "METRICS_NAMESPACE", default="kube-system")


def test_a_selector_selects_pods_of_the_target_and_of_nothing_else() -> None:
    assert _bound(POD, "SELECTOR") == "app=checkout"
    for value in ("app=checkout", "app==checkout", "tier=web, app=checkout"):
        assert _bound(POD, "SELECTOR", value) == value
    for value in ("app=payments", "tier=web", "app", "app!=checkout", "tier in (app=checkout,web)"):
        with pytest.raises(InvalidInput, match=r"give app=checkout"):
            _bound(POD, "SELECTOR", value)
    with pytest.raises(InvalidInput, match=r"input\.POD_SELECTOR names another object"):
        _bound(CLAIM, "POD_SELECTOR", "app=web")


def test_a_manifest_that_does_not_say_how_it_selects_its_pods_binds_no_selector() -> None:
    assert _bound(replace(POD, target_selector=ANY_PODS), "SELECTOR", "app=web") == "app=web"


@pytest.mark.parametrize(
    ("name", "value", "command"),
    [
        ("NAME", "payments", 'kubectl rollout restart deployment -n "$NAMESPACE" "$NAME"'),
        ("NAME", "payments", 'kubectl delete deployment --grace-period 0 "$NAME"'),
        ("NAME", "payments", 'kubectl delete deployment --unknown 0 --now "$NAME"'),
        ("NAME", "payments", 'kubectl delete deployments.apps web "$NAME"'),
        ("NAME", "payments", 'kubectl delete deployment "${NAME:?is missing}"'),
        ("NAME", "payments", 'kubectl delete deployment "$NAME">/dev/null 2>&1'),
        ("NAME", "payments", 'kubectl delete deployment 2>&1 "$NAME"'),
        ("NAME", "payments", r'sh -c "kubectl delete deployment \"$NAME\""'),
        ("NAME", "payments", 'kubectl delete deployment "${OTHER:-${NAME}}"'),
        ("NAME", "payments", 'test "$(kubectl get deployment "$NAME" -o name)" = ""'),
        ("NAME", "payments", 'kubectl delete deployment $(kubectl get pod -o name) "$NAME"'),
        ("METRICS_DEPLOYMENT", "payments", ""),
        ("DEPENDENCY", "payments", 'kubectl rollout restart "deployment/${DEPENDENCY}"'),
        ("NAME", "payments", 'kubectl -n "${NAMESPACE}" scale deployment "$NAME" --replicas=0'),
        ("ANY", "deploy/payments", ""),
        ("ANY", "deployments.apps/payments", ""),
        ("ANY", ["x", "deployment/payments"], ""),
        ("ANY", "deployment/checkout deployment/payments", ""),
    ],
)
def test_another_object_that_a_run_names_is_one_whose_labels_count(name: str, value: object, command: str) -> None:
    assert _named(POD, name, value, command=command) == ["shop/Deployment/payments"]


def test_what_is_read_with_the_target_or_names_nothing_that_has_labels_is_not_read_again() -> None:
    assert _named(POD, "METRICS_DEPLOYMENT", "checkout") == []
    assert _named(POD, "ANY", "deployment/checkout") == []
    assert _named(POD, "ANY", "payments") == []
    assert _named(POD, "ANY", "prometheusrule/shop") == []
    assert (
        _named(POD, "APP", "web", command='kubectl exec -c app "$POD" -- ls -l "$APP"; kubectl logs web "$APP"') == []
    )
    assert _named(POD, "IMAGE", "web", command='kubectl set image deployment web app="$IMAGE" "$KEY=$IMAGE"') == []
    assert _named(POD, "FILE", "web", command='kubectl get deployment web > "$FILE"') == []
    assert _named(POD, "CONTAINER", "web", command='kubectl exec web -c "$CONTAINER" --tail "$CONTAINER"') == []
    assert _named(POD, "KEY", "fs.file-max", command='test "$(sysctl -n "${KEY}")" = 1') == []


def test_a_run_names_no_more_objects_than_can_be_read() -> None:
    many = " ".join(f"deployment/web-{number}" for number in range(17))

    assert len(_named(POD, "ANY", many.rpartition(" ")[0])) == 16
    with pytest.raises(InvalidInput, match="more than 16 objects"):
        _named(POD, "ANY", many)


def test_a_node_or_a_namespace_that_a_command_reaches_is_that_of_the_target() -> None:
    inside, drained = 'kubectl -n "${WHERE}" delete pod web', 'kubectl drain node "${HOST}"'
    assert _named(POD, "WHERE", "shop", command=inside) == []
    assert _named(POD, "HOST", "worker-1", command=drained) == []
    for name, value, command in (
        ("WHERE", "bank", inside),
        ("HOST", "worker-2", drained),
        ("ANY", "node/worker-2", ""),
    ):
        with pytest.raises(InvalidInput, match=f"input.{name} names another object"):
            _named(POD, name, value, command=command)


def test_what_has_no_pods_leaves_the_workload_to_the_run_and_a_workload_leaves_the_claim() -> None:
    for name, value, named in (("POD", "checkout-1", "Pod/checkout-1"), ("WORKLOAD", "sts/db", "StatefulSet/db")):
        assert _bound(CLAIM, name, value) == value
        assert _named(CLAIM, name, value) == [f"shop/{named}"]
    assert _bound(POD, "CLAIM", "data") == "data"
    assert _named(POD, "CLAIM", "data") == ["shop/PersistentVolumeClaim/data"]
    with pytest.raises(InvalidInput, match=r"give data"):
        _bound(CLAIM, "CLAIM", "other")


@pytest.mark.parametrize(
    "command",
    [
        'kubectl exec -c app "$NAME" -- ls',
        'kubectl exec -it -n shop "$NAME" -- ls',
        'kubectl exec -c kubectl "$NAME" -- ls',
        "kubectl -n shop logs --container=app $NAME",
        'kubectl delete pod --grace-period 0 "$NAME"',
    ],
)
def test_flags_between_a_command_and_a_name_hide_no_pod(command: str) -> None:
    assert _named(POD, "NAME", "web", command=command) == ["shop/Pod/web"]


def test_a_command_on_two_kinds_names_an_object_of_each() -> None:
    named = _named(POD, "NAME", "web", command='kubectl delete deploy,sts "$NAME"')

    assert named == ["shop/Deployment/web", "shop/StatefulSet/web"]


@pytest.mark.parametrize("command", ["drain --ignore-daemonsets", "cordon", "uncordon", "drain --timeout 5m node"])
@pytest.mark.parametrize("context", [POD, NODE], ids=["pod", "node"])
def test_a_command_on_nodes_reaches_that_of_the_target_alone(command: str, context: RequestContext) -> None:
    assert _named(context, "HOST", "worker-1", command=f'kubectl {command} "$HOST"') == []
    with pytest.raises(InvalidInput, match=r"input\.HOST names another object"):
        _named(context, "HOST", "worker-2", command=f'kubectl {command} "$HOST"')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TARGET_NODE", "worker-2"),
        ("OTHER_NODE", "worker-2"),
        ("ANY", "node/worker-2"),
        ("METRICS_DEPLOYMENT", "metrics"),
        ("NAMESPACES", "bank"),
    ],
)
def test_a_run_about_a_node_names_no_other_node_and_nothing_in_a_namespace(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=f"input.{name} names another object"):
        _named(NODE, name, value)
    assert _named(NODE, "TARGET_NODE", "worker-1") == []
    assert _named(NODE, "TAINT_KEY", "dedicated") == []


@pytest.mark.parametrize("flag", ["-l ", "-l", "-l=", "--selector ", "--selector="])
def test_what_a_command_takes_as_a_selector_selects_pods_of_the_target(flag: str) -> None:
    command = f'kubectl delete pod {flag}"$LABELS"'

    assert bound_input(_spec("LABELS", command=command), {}, context=POD) == {"LABELS": "app=checkout"}
    with pytest.raises(InvalidInput, match=r"give app=checkout"):
        bound_input(_spec("LABELS", command=command), {"LABELS": "app=payments"}, context=POD)


def test_no_nodes_are_selected_by_their_labels() -> None:
    spec = _spec("POOL", command='kubectl cordon --selector="$POOL"')
    for context in (POD, NODE):
        with pytest.raises(InvalidInput, match=r"input\.POOL names another object"):
            bound_input(spec, {"POOL": "pool=web"}, context=context)


def test_a_workload_that_selects_its_pods_by_more_than_labels_leaves_no_selector_to_a_run() -> None:
    expression = {"key": "track", "operator": "NotIn", "values": ["canary"]}
    selector = {"matchLabels": {"app": "checkout"}, "matchExpressions": [expression]}
    of_workload = pod_selector({"spec": {"selector": selector}})
    context = target_context(surroundings(selector=of_workload), mapping=DEFAULT_MAPPING)

    assert _bound(context, "SELECTOR") is None
    with pytest.raises(InvalidInput, match=r"input\.SELECTOR names another object"):
        _bound(context, "SELECTOR", "app=checkout")


@pytest.mark.parametrize("value", ["app=checkout,x=y -l app=pay", "app=checkout, -lapp=pay", "app=checkout\t-A"])
def test_a_selector_holds_no_flag(value: str) -> None:
    with pytest.raises(InvalidInput, match=r"give app=checkout"):
        _bound(POD, "SELECTOR", value)


@pytest.mark.parametrize("value", ["metrics --namespace=other", ["metrics", "-n", "other"], "-nother", "-l,app=web"])
def test_a_value_that_names_an_object_holds_no_flag(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"input\.METRICS_DEPLOYMENT names an object, and a word in it begins"):
        _named(POD, "METRICS_DEPLOYMENT", value)
    assert _named(POD, "OPTIONS", "-Xmx512m -n other") == []


@pytest.mark.parametrize(
    ("name", "value", "command"),
    [
        ("OBJECT", "namespace/bank", ""),
        ("OBJECT", "deployment/web ns/bank", ""),
        ("NAMESPACES", "bank", ""),
        ("OTHER_NAMESPACES", ["bank"], ""),
        ("NS", "bank", 'kubectl get pods -n"$NS"'),
        ("NS", "bank", 'kubectl get pods --namespace="${NS}"'),
        ("NS", "bank", 'kubectl delete namespace "$NS"'),
        ("NS", "bank", 'sh -c "kubectl -n $NS get pods"'),
        ("NS", "bank", 'CLIENT="kubectl -n $NS"'),
        ("NS", "bank", '"${KUBECTL}" -n "${NS}" get pods'),
    ],
)
def test_a_namespace_is_named_by_its_parameter_its_value_or_a_command(name: str, value: object, command: str) -> None:
    named = named_namespaces(_spec(name, command=command), {name: value}, home="shop")

    assert [each.name for each in named] == ["shop", "bank"]
    with pytest.raises(InvalidInput, match=f"input.{name} names another object"):
        _named(POD, name, value, command=command)
