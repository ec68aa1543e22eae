"""What is detected of a target: by upstream's signs, and unknown where it could not be read."""

from typing import Any

import pytest

from formulary_catalog.domain.incidents import constraints_of
from formulary_catalog.domain.targets.context import UNKNOWN, detected_facts, further_context, target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.reference import TargetReference
from formulary_catalog.domain.targets.surroundings import ObjectMetadata, SelectorTerm, Surroundings, selector_of
from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels
from formulary_catalog.domain.workflows.matching import allowed
from support.targets import metadata, surroundings

TRACKING = {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/checkout"}
HELM = {"meta.helm.sh/release-name": "shop"}
BY_HELM = {"app.kubernetes.io/managed-by": "Helm"}


def _owned(deployment: ObjectMetadata) -> Surroundings:
    return surroundings(owners=(metadata("ReplicaSet", "checkout-a"), deployment))


@pytest.mark.parametrize(
    ("around", "tool"),
    [
        (_owned(metadata("Deployment", "checkout", annotations=TRACKING)), "argocd"),
        (surroundings(pod={"argocd.argoproj.io/instance": "shop"}), "argocd"),
        (surroundings(owner={"kustomize.toolkit.fluxcd.io/name": "shop"}), "flux"),
        (surroundings(owner={"helm.toolkit.fluxcd.io/name": "shop"}), "flux"),
        (surroundings(namespace={"env": "dev", "argocd.argoproj.io/managed-by": "argocd"}), "argocd"),
        (surroundings(owner={"app.kubernetes.io/instance": "shop"}), "false"),
        (surroundings(), "false"),
    ],
)
def test_what_argo_and_flux_manage_is_seen_on_the_object_its_owners_and_its_namespace(
    around: Surroundings, tool: str
) -> None:
    facts = detected_facts(around)

    assert (facts["gitOpsTool"], facts["gitOpsManaged"]) == (tool, "false" if tool == "false" else "true")


def test_helm_is_believed_with_label_and_release_alone() -> None:
    assert (
        detected_facts(_owned(metadata("Deployment", "checkout", BY_HELM, annotations=HELM)))["helmManaged"] == "true"
    )
    assert detected_facts(_owned(metadata("Deployment", "checkout", BY_HELM)))["helmManaged"] == "false"


def test_what_scales_and_protects_the_pods_is_found_through_owners_and_selectors() -> None:
    chosen = selector_of({"spec": {"selector": {"matchLabels": {"app": "checkout"}}}})
    other = selector_of(
        {"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["checkout"]}]}}}
    )
    assert chosen is not None
    assert other is not None

    scaled = surroundings(autoscaled=frozenset({("Deployment", "checkout")}))
    protected = surroundings(pod={"app": "checkout"}, budgets=(other, chosen))
    unprotected = surroundings(pod={"app": "checkout"}, budgets=(other,))

    assert detected_facts(scaled)["hpaEnabled"] == "true"
    assert detected_facts(protected)["pdbProtected"] == "true"
    assert detected_facts(unprotected)["pdbProtected"] == "false"
    assert detected_facts(unprotected)["hpaEnabled"] == "false"
    assert selector_of({"spec": {}}) is None
    assert SelectorTerm(key="app", operator="In", values=frozenset({"checkout"})) in chosen


def test_a_stateful_set_among_the_owners_is_stateful() -> None:
    assert detected_facts(surroundings(owners=(metadata("StatefulSet", "db"),)))["stateful"] == "true"
    assert detected_facts(surroundings())["stateful"] == "false"


@pytest.mark.parametrize(
    ("around", "mesh"),
    [
        (surroundings(pods=metadata("Pod", "checkout-1", annotations={"sidecar.istio.io/inject": "true"})), "istio"),
        (surroundings(pods=metadata("Pod", "checkout-1", annotations={"sidecar.istio.io/status": "{}"})), "istio"),
        (surroundings(pods=metadata("Pod", "checkout-1", annotations={"linkerd.io/inject": "enabled"})), "linkerd"),
        (surroundings(namespace={"env": "dev", "istio-injection": "enabled"}), "istio"),
        (
            surroundings(
                namespace={"env": "dev", "istio-injection": "enabled"},
                pods=metadata("Pod", "checkout-1", annotations={"sidecar.istio.io/inject": "false"}),
            ),
            "false",
        ),
    ],
)
def test_the_mesh_is_that_of_the_pods_else_of_their_namespace(around: Surroundings, mesh: str) -> None:
    assert detected_facts(around)["serviceMesh"] == mesh


@pytest.mark.parametrize(
    "around",
    [
        surroundings(found=None, owners=(), complete=False, pods=None, autoscaled=None, budgets=None),
        surroundings(
            reference=TargetReference(namespace="shop", kind="Rollout", name="a"), found=None, complete=False, pods=None
        ),
    ],
)
@pytest.mark.parametrize("value", ["true", "false", "*"])
def test_a_fact_that_could_not_be_read_meets_no_requirement(around: Surroundings, value: str) -> None:
    constraints = constraints_of(target_context(around, mapping=DEFAULT_MAPPING), strict_keys=frozenset())

    assert set(constraints.detected.values()) == {UNKNOWN}
    for fact in constraints.detected:
        assert not allowed(WorkflowLabels(detected={fact: value}), constraints)
    assert allowed(WorkflowLabels(), constraints)


def test_a_workflow_for_what_no_gitops_manages_is_not_allowed_where_argo_does() -> None:
    around = _owned(metadata("Deployment", "checkout", annotations=TRACKING))
    constraints = constraints_of(target_context(around, mapping=DEFAULT_MAPPING), strict_keys=frozenset())

    assert not allowed(WorkflowLabels(detected={"gitOpsManaged": "false"}), constraints)


def test_of_a_further_pod_that_is_gone_its_namespace_alone_demands_something() -> None:
    def demanded(around: Surroundings) -> Constraints:
        return constraints_of(further_context(around, mapping=DEFAULT_MAPPING), strict_keys=frozenset())

    by_hand = WorkflowLabels(detected={"gitOpsManaged": "false"})
    labels = {"environment": "production"}
    gone: dict[str, Any] = {"found": None, "owners": (), "complete": False, "pods": None}

    assert allowed(by_hand, demanded(surroundings(**gone)))
    assert not allowed(
        by_hand, demanded(surroundings(namespace={**labels, "constraint.formulary.dev/restarts": "no"}, **gone))
    )
    by_argo = {**labels, "argocd.argoproj.io/managed-by": "argocd"}
    assert not allowed(by_hand, demanded(surroundings(namespace=by_argo, **gone)))
    assert not allowed(by_hand, demanded(surroundings(complete=False)))
