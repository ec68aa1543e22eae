"""What labels of a target demand: whose word counts, and what is missing (DESIGN section 6)."""

import pytest

from formulary_catalog.domain.incidents import constraints_of
from formulary_catalog.domain.targets.context import target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING, ContextMapping, context_mapping
from formulary_catalog.errors import ContextError, StartupError
from support.targets import surroundings

PRODUCTION = {"environment": "production"}
NO_RESTARTS = {"constraint.formulary.dev/restarts": "no"}
RESTARTS = {"constraint.formulary.dev/restarts": "yes"}


def test_a_label_with_the_prefix_is_a_custom_label_and_others_are_by_their_names() -> None:
    around = surroundings(namespace={**PRODUCTION, **NO_RESTARTS, "team": "payments", "priority": "P0"})

    context = target_context(around, mapping=DEFAULT_MAPPING)

    assert context.custom_labels == {"restarts": ("no",), "team": ("payments",)}
    assert (context.environment, context.priority) == ("production", "P0")
    assert (context.target, context.analysis) == ("shop/Pod/checkout-1", "")


def test_a_workload_adds_what_its_namespace_leaves_open_and_changes_nothing_of_it() -> None:
    around = surroundings(
        namespace={**PRODUCTION, "team": "payments"},
        pod={"team": "other", "environment": "dev", "priority": "P3"},
        node={"constraint.formulary.dev/zone": "a"},
    )

    context = target_context(around, mapping=DEFAULT_MAPPING)

    assert (context.environment, context.priority) == ("production", "P3")
    assert context.custom_labels == {"team": ("payments",), "zone": ("a",)}


@pytest.mark.parametrize(
    ("namespace", "owner", "restarts"),
    [
        (NO_RESTARTS, RESTARTS, {"no"}),
        (RESTARTS, NO_RESTARTS, {"no"}),
        ({}, NO_RESTARTS, {"no"}),
        ({"constraint.formulary.dev/restarts": "No"}, {}, {"no"}),
        ({"constraint.formulary.dev/restarts": "never"}, NO_RESTARTS, {"never"}),
        (RESTARTS, {"constraint.formulary.dev/restarts": "never"}, {"never"}),
        (RESTARTS, {}, None),
    ],
)
def test_no_restarts_is_demanded_by_whoever_says_so_and_yes_demands_nothing(
    namespace: dict[str, str], owner: dict[str, str], restarts: set[str] | None
) -> None:
    around = surroundings(namespace={**PRODUCTION, **namespace}, owner=owner)

    constraints = constraints_of(target_context(around, mapping=DEFAULT_MAPPING), strict_keys=frozenset())

    assert constraints.custom.get("restarts") == restarts
    assert {"restarts", "data-loss"} <= constraints.strict_keys


def test_a_namespace_without_its_environment_is_an_error_with_the_command_that_repairs_it() -> None:
    around = surroundings(namespace=NO_RESTARTS, pod={"environment": "dev"})

    with pytest.raises(ContextError) as refused:
        target_context(around, mapping=DEFAULT_MAPPING)

    assert "kubectl label namespace shop formulary.dev/environment=VALUE" in str(refused.value)
    assert "restarts" not in str(refused.value)


def test_a_file_changes_what_it_names_and_leaves_the_rest_as_it_is() -> None:
    mapping = context_mapping({"environment": {"labels": ["stage"]}}, source="context.yaml")

    assert mapping.environment.labels == ["stage"]
    assert not mapping.environment.required
    assert mapping.custom_labels == DEFAULT_MAPPING.custom_labels
    assert context_mapping(None, source="context.yaml") == DEFAULT_MAPPING


def test_the_defaults_are_those_of_the_design() -> None:
    labels = {name: source.labels for name, source in DEFAULT_MAPPING.dimensions.items()}

    assert labels == {
        "environment": ["formulary.dev/environment", "environment", "env"],
        "priority": ["formulary.dev/priority", "priority"],
        "business_category": ["formulary.dev/business-category"],
        "risk_tolerance": ["formulary.dev/risk-tolerance"],
    }
    assert [name for name, source in DEFAULT_MAPPING.dimensions.items() if source.required] == ["environment"]
    assert DEFAULT_MAPPING.custom_labels.prefix == "constraint.formulary.dev/"
    assert {key: each.labels for key, each in DEFAULT_MAPPING.custom_labels.named.items()} == {"team": ["team"]}
    assert DEFAULT_MAPPING.strict == ["data-loss", "restarts"]
    assert context_mapping(DEFAULT_MAPPING.model_dump(by_alias=True), source="context.yaml") == ContextMapping()


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"enviroment": {"labels": ["env"]}}, "enviroment"),
        ({"environment": {"labels": []}}, "environment.labels"),
        ({"environment": {"labels": ["a b"]}}, "environment.labels.0"),
        ({"environment": ["env"]}, "environment"),
        ({"customLabels": {"prefix": "constraint"}}, "customLabels.prefix"),
        ({"customLabels": {"team": {"label": "team"}}}, "customLabels.team"),
        ({"strict": "restarts"}, "strict"),
        (["environment"], "document"),
    ],
)
def test_a_wrong_field_of_the_file_is_named(document: object, field: str) -> None:
    with pytest.raises(StartupError, match=r"^context\.yaml: ") as refused:
        context_mapping(document, source="context.yaml")

    assert f"{field}" in str(refused.value)
