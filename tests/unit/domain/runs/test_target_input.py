"""What a run may act on whose constraints are those of a target."""

from dataclasses import replace
from typing import Any

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.target_input import bound_input
from formulary_catalog.domain.targets.context import target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.workflows.manifest import Parameter
from formulary_catalog.errors import InvalidInput
from support.targets import surroundings

POD = target_context(surroundings(), mapping=DEFAULT_MAPPING)


def _bound(context: RequestContext, name: str, value: object = None, **more: Any) -> Any:
    """The value of one parameter of a run."""
    parameter = Parameter.model_validate(
        {"name": name, "type": "string", "required": False, "description": "Which.", **more}
    )
    return bound_input([parameter], {} if value is None else {name: value}, context=context).get(name)


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
