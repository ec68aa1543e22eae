"""What a call says is broken, in the spellings of models, people and kubectl."""

import pytest

from formulary_catalog.domain.targets.reference import TargetReference, parse_target, target_reference
from formulary_catalog.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shop/deployment/checkout", ("shop", "Deployment", "checkout")),
        ("shop/deploy/checkout", ("shop", "Deployment", "checkout")),
        ("shop/statefulsets/db", ("shop", "StatefulSet", "db")),
        ("node/worker-1", ("", "Node", "worker-1")),
        ("namespace/shop", ("", "Namespace", "shop")),
        ("shop/Rollout/checkout", ("shop", "Rollout", "checkout")),
    ],
)
def test_a_target_is_written_as_for_kubectl(text: str, expected: tuple[str, str, str]) -> None:
    namespace, kind, name = expected

    assert parse_target(text) == TargetReference(namespace=namespace, kind=kind, name=name)


@pytest.mark.parametrize("text", ["checkout", "a/b/c/d", "shop//checkout", "", "/deployment/checkout"])
def test_a_target_of_another_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="shop/Deployment/checkout"):
        parse_target(text)


@pytest.mark.parametrize("absent", ["", " ", "null", "None", "undefined"])
def test_what_models_write_for_nothing_is_no_target(absent: str) -> None:
    assert target_reference(namespace=absent, kind=absent, name=absent) is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"namespace": "shop", "kind": "", "name": "checkout"}, "target_kind"),
        ({"namespace": "shop", "kind": "Deployment", "name": ""}, "target_name"),
        ({"namespace": "", "kind": "Deployment", "name": "checkout"}, "target_namespace"),
        ({"namespace": "shop", "kind": "Node", "name": "worker-1"}, "target_namespace"),
        ({"namespace": "shop", "kind": "Pod", "name": "../../secrets/x"}, "target_name"),
        ({"namespace": "shop/secrets", "kind": "Pod", "name": "x"}, "target_namespace"),
        ({"namespace": "shop", "kind": "../Pod", "name": "x"}, "target_kind"),
    ],
)
def test_a_target_that_is_incomplete_or_no_name_is_refused_with_its_argument(given: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        target_reference(**given)

    assert refused.value.field == field
    assert field in str(refused.value)


def test_a_namespace_may_be_named_either_way() -> None:
    one = target_reference(namespace="shop", kind="namespace", name="")
    other = target_reference(namespace="shop", kind="Namespace", name="shop")

    assert one == other == TargetReference(namespace="", kind="Namespace", name="shop")
