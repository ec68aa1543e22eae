"""The label rules of the design, one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.search.fit import MEANING_WEIGHT
from formulary_catalog.domain.search.label_weights import (
    ANY,
    CUSTOM_WEIGHT,
    DETECTED_WEIGHT,
    SEVERITY_CONTRADICTED,
    SEVERITY_WEIGHT,
    label_evidence,
    severity_evidence,
    share,
)
from formulary_catalog.domain.text import exclusion_phrase, exclusion_text
from formulary_catalog.domain.workflows.labels import (
    DIMENSIONS,
    Constraints,
    Narrowing,
    WorkflowLabels,
    declared,
    demanded,
    fold,
    fold_all,
    normalize_detected,
)
from formulary_catalog.domain.workflows.matching import allowed, detected_holds

GENERIC = WorkflowLabels()
others = pytest.mark.parametrize("dimension", [dimension for dimension in DIMENSIONS if dimension != "cluster"])
every = pytest.mark.parametrize("dimension", DIMENSIONS)


def _declares(dimension: str, *values: str) -> WorkflowLabels:
    return WorkflowLabels(values={dimension: fold_all(values)})


def _wants(dimension: str, *values: str) -> Constraints:
    return Constraints(values={dimension: fold_all(values)})


def _team(*values: str) -> WorkflowLabels:
    return WorkflowLabels(custom={"team": frozenset(values)})


@pytest.mark.parametrize(
    ("one", "other"), [("Production", " PRODUCTION "), ("Straße", "STRASSE"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("İ", "i\u0307")]
)
def test_labels_are_compared_without_regard_to_case_and_surrounding_space(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@every
def test_any_common_value_allows_and_no_common_value_excludes(dimension: str) -> None:
    workflow = _declares(dimension, "a", "b")
    assert allowed(workflow, _wants(dimension, "B"))
    assert allowed(workflow, _wants(dimension, "x", "a"))
    assert not allowed(workflow, _wants(dimension, "x", "y"))


@every
def test_a_declared_match_counts_more_than_a_wildcard_and_that_more_than_nothing_declared(dimension: str) -> None:
    wanted = _wants(dimension, "a", "b")
    exact, wildcard = _declares(dimension, "A"), _declares(dimension, "*")
    assert label_evidence(exact, wanted) > label_evidence(wildcard, wanted) > label_evidence(GENERIC, wanted) == 0
    assert label_evidence(_declares(dimension, "a", "b", "*"), wanted) == label_evidence(exact, wanted)


@every
def test_a_wildcard_allows_every_value(dimension: str) -> None:
    assert allowed(_declares(dimension, "*"), _wants(dimension, "anything"))
    assert allowed(_declares(dimension, "a", "*"), _wants(dimension, "anything"))


@every
def test_a_label_that_is_not_asked_for_constrains_nothing(dimension: str) -> None:
    assert allowed(_declares(dimension, "a"), Constraints())
    assert allowed(_declares(dimension, "a"), _wants(dimension))
    assert label_evidence(_declares(dimension, "a"), Constraints()) == 0
    assert label_evidence(_declares(dimension, "a"), _wants(dimension)) == 0


@others
def test_a_workflow_that_declares_nothing_is_generic(dimension: str) -> None:
    assert allowed(GENERIC, _wants(dimension, "a"))
    assert label_evidence(GENERIC, _wants(dimension, "a")) == 0


def test_a_workflow_that_names_no_cluster_is_excluded_where_one_is_asked_for() -> None:
    assert not allowed(GENERIC, _wants("cluster", "a"))


def test_custom_labels_are_or_within_a_key_and_and_across_keys() -> None:
    workflow = WorkflowLabels(custom={"team": frozenset({"a", "b"}), "region": frozenset({"eu"})})
    assert allowed(workflow, Constraints(custom={"team": frozenset({"b", "c"}), "region": frozenset({"eu"})}))
    assert not allowed(workflow, Constraints(custom={"team": frozenset({"b"}), "region": frozenset({"us"})}))
    assert not allowed(workflow, Constraints(custom={"team": frozenset({"c"}), "region": frozenset({"eu"})}))


def test_custom_labels_are_compared_exactly_as_given() -> None:
    assert not allowed(_team("Payments"), Constraints(custom={"team": frozenset({"payments"})}))
    assert not allowed(_team("payments "), Constraints(custom={"team": frozenset({"payments"})}))
    assert allowed(_team("Payments"), Constraints(custom={"Team": frozenset({"checkout"})}))


def test_a_custom_wildcard_allows_every_value() -> None:
    assert allowed(_team("*"), Constraints(custom={"team": frozenset({"payments"})}))


def test_of_a_wanted_label_a_value_counts_whole_a_wildcard_a_part_and_another_value_nothing() -> None:
    wanted = frozenset({"a", "b"})
    declared = (frozenset({"a", "*"}), frozenset({"c", "*"}), frozenset({"c"}), frozenset[str]())
    assert [share(each, wanted=wanted) for each in declared] == [1.0, ANY, 0.0, 0.0]


def test_each_custom_label_that_a_workflow_declares_counts_and_a_wildcard_less() -> None:
    team = Constraints(custom={"team": frozenset({"payments", "checkout"})})
    both = Constraints(custom={**team.custom, "region": frozenset({"eu"})})
    workflow = WorkflowLabels(custom={"team": frozenset({"payments"}), "region": frozenset({"eu"})})
    assert label_evidence(workflow, both) == 1.5 * label_evidence(_team("payments"), both) > 0
    assert label_evidence(_team("payments"), team) > label_evidence(_team("*"), team) > 0
    assert label_evidence(GENERIC, team) == 0
    assert label_evidence(_team("payments"), Constraints(custom={"team": frozenset()})) == 0


@given(
    workflow=st.builds(
        WorkflowLabels,
        values=st.dictionaries(st.sampled_from(DIMENSIONS), st.frozensets(st.sampled_from("ab*"), max_size=2)),
        custom=st.dictionaries(st.sampled_from("kl"), st.frozensets(st.sampled_from("ab*"), max_size=2)),
        detected=st.dictionaries(st.sampled_from("mn"), st.sampled_from(["true", "*"])),
    ),
    constraints=st.builds(
        Constraints,
        values=st.dictionaries(st.sampled_from(DIMENSIONS), st.frozensets(st.sampled_from("ab"), max_size=2)),
        custom=st.dictionaries(st.sampled_from("kl"), st.frozensets(st.sampled_from("ab"), max_size=2)),
        detected=st.dictionaries(st.sampled_from("mn"), st.just("true")),
    ),
)
def test_what_dimensions_count_adds_up_and_of_several_other_labels_each_counts_half_of_the_one_before(
    workflow: WorkflowLabels, constraints: Constraints
) -> None:
    values = [Constraints(values={name: values}) for name, values in constraints.values.items()]
    custom = [label_evidence(workflow, Constraints(custom={key: values})) for key, values in constraints.custom.items()]
    detected = [
        label_evidence(workflow, Constraints(detected={key: value})) for key, value in constraints.detected.items()
    ]
    whole = label_evidence(workflow, constraints)
    dimensions = sum(label_evidence(workflow, one) for one in values)
    others = whole - dimensions
    assert others >= max([0.0, *custom, *detected]) - 1e-9
    assert others <= sum(custom) + sum(detected) + 1e-9
    assert others < 2 * CUSTOM_WEIGHT + 2 * DETECTED_WEIGHT


@given(number=st.integers(1, 40))
def test_no_number_of_custom_or_detected_labels_outweighs_a_workflow_that_clearly_fits_better(number: int) -> None:
    keys = [f"key{each}" for each in range(number)]
    declares_all = WorkflowLabels(custom={key: frozenset({"a"}) for key in keys}, detected=dict.fromkeys(keys, "true"))
    asked = Constraints(custom={key: frozenset({"a"}) for key in keys}, detected=dict.fromkeys(keys, "true"))
    assert label_evidence(declares_all, asked) < MEANING_WEIGHT * 0.3


def test_a_custom_key_the_workflow_lacks_is_generic_unless_it_is_strict() -> None:
    wanted = {"team": frozenset({"payments"})}
    assert allowed(GENERIC, Constraints(custom=wanted))
    assert allowed(GENERIC, Constraints(custom=wanted, strict_keys=frozenset({"region"})))
    assert not allowed(GENERIC, Constraints(custom=wanted, strict_keys=frozenset({"team"})))
    assert allowed(_team("*"), Constraints(custom=wanted, strict_keys=frozenset({"team"})))


def test_a_strict_key_that_the_incident_does_not_have_constrains_nothing() -> None:
    assert allowed(GENERIC, Constraints(strict_keys=frozenset({"team"})))
    assert allowed(GENERIC, Constraints(custom={"team": frozenset()}, strict_keys=frozenset({"team"})))


@pytest.mark.parametrize(
    ("required", "observed", "holds"),
    [
        (True, "TRUE", True),
        ("false", False, True),
        (True, False, False),
        (False, True, False),
        ("argocd", "ArgoCD", True),
        ("argocd", "flux", False),
        ("*", "flux", True),
        ("*", True, True),
        ("*", False, False),
        ("*", "", False),
    ],
)
def test_a_detected_label_must_hold_as_far_as_the_incident_says(
    required: bool | str, observed: bool | str, holds: bool
) -> None:
    declared, seen = normalize_detected(required), normalize_detected(observed)
    assert detected_holds(required=declared, observed=seen) is holds
    workflow = WorkflowLabels(detected={"gitOpsTool": declared})
    assert allowed(workflow, Constraints(detected={"gitOpsTool": seen})) is holds
    assert allowed(workflow, Constraints(detected={"hpaEnabled": "true"}))
    assert allowed(GENERIC, Constraints(detected={"gitOpsTool": seen}))


def test_each_requirement_that_the_incident_confirms_counts() -> None:
    workflow = WorkflowLabels(detected={"gitOpsTool": "*", "hpaEnabled": "false", "stateful": "true"})
    seen = {"gitOpsTool": "argocd", "hpaEnabled": "false", "pdbProtected": "true"}
    one = label_evidence(workflow, Constraints(detected={"hpaEnabled": "false"}))
    assert one == DETECTED_WEIGHT
    assert label_evidence(workflow, Constraints(detected=seen)) == 1.5 * one
    assert label_evidence(workflow, Constraints()) == 0
    assert label_evidence(GENERIC, Constraints(detected=seen)) == 0


def test_one_excluded_phrase_is_enough() -> None:
    workflow = WorkflowLabels(exclusion_text=exclusion_text(["Restart the pod"]))
    assert allowed(workflow, Constraints(excluded_phrases=(exclusion_phrase("drain"),)))
    assert not allowed(workflow, Constraints(excluded_phrases=(exclusion_phrase("drain"), exclusion_phrase("POD"))))


@pytest.mark.parametrize(
    ("given_", "demands"),
    [
        ({"restarts": ["no", "yes"], "team": ["no", "yes"]}, {"restarts": {"no"}, "team": {"no", "yes"}}),
        ({"data-loss": ["yes"], "team": ["yes"]}, {"team": {"yes"}}),
        ({"restarts": ["maybe"], "team": ["no"]}, {"restarts": {"maybe"}, "team": {"no"}}),
    ],
)
def test_of_a_standard_label_one_no_demands_it_and_yes_alone_nothing(
    given_: dict[str, list[str]], demands: dict[str, set[str]]
) -> None:
    assert demanded(given_) == demands


def test_of_a_standard_label_only_no_alone_says_no() -> None:
    custom = {
        key: frozenset(values) for key, values in (("restarts", ["no"]), ("data-loss", ["no", "*"]), ("team", ["*"]))
    }

    assert declared(custom) == {"restarts": {"no"}, "data-loss": {"yes"}, "team": {"*"}}


@pytest.mark.parametrize("part", [{"action_type": "Restart"}, {"namespace": "shop"}, {"keywords": (" disk ",)}])
def test_each_part_narrows_and_none_does_not(part: dict[str, Any]) -> None:
    assert Narrowing(**part)
    assert not Narrowing()


@pytest.mark.parametrize(
    ("severities", "mentioned", "counts"),
    [
        (["high", "critical"], "critical", SEVERITY_WEIGHT),
        (["high"], "critical", -SEVERITY_CONTRADICTED),
        (["high"], "warning", 0.0),
        (["high"], "info", 0.0),
        (["warning"], "warning", SEVERITY_WEIGHT),
        (["*"], "critical", 0.0),
        (["high", "*"], "critical", 0.0),
        ([], "critical", 0.0),
        (["high"], "", 0.0),
    ],
)
def test_another_severity_than_the_query_mentions_counts_against_a_workflow(
    severities: list[str], mentioned: str, counts: float
) -> None:
    assert severity_evidence(_declares("severity", *severities), mentioned=mentioned) == counts
    assert severity_evidence(GENERIC, mentioned=mentioned) == 0.0
