"""A reason is given for exactly those workflows that the matcher excludes, and custom labels stay secret."""

from hypothesis import given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.text import exclusion_phrase, exclusion_text
from formulary_catalog.domain.workflows.exclusion import INCIDENT_LABEL, exclusions
from formulary_catalog.domain.workflows.labels import DIMENSIONS, WILDCARD, Constraints, WorkflowLabels
from formulary_catalog.domain.workflows.matching import allowed

VALUES = ["production", "staging", "p0", "strasse", WILDCARD]
KEYS = ["s3cret-team", "s3cret-region"]
SECRETS = ["v4lue-web", "v4lue-data", WILDCARD]
DETECTED = ["true", "false", "argocd", WILDCARD, ""]
WORDS = ["restart", "drain node", "limit"]

values = st.frozensets(st.sampled_from(VALUES), max_size=2)
labels = st.dictionaries(st.sampled_from(DIMENSIONS), values, max_size=3)
custom = st.dictionaries(st.sampled_from(KEYS), st.frozensets(st.sampled_from(SECRETS), max_size=2), max_size=2)
detected = st.dictionaries(st.sampled_from(["hpaEnabled", "gitOpsTool"]), st.sampled_from(DETECTED), max_size=2)
workflows = st.builds(
    WorkflowLabels,
    values=labels,
    custom=custom,
    detected=detected,
    exclusion_text=st.lists(st.sampled_from(WORDS), max_size=2).map(exclusion_text),
)
demands = st.builds(
    Constraints,
    values=labels,
    custom=custom,
    strict_keys=st.frozensets(st.sampled_from(KEYS), max_size=1),
    detected=detected,
    excluded_phrases=st.lists(st.sampled_from(WORDS).map(exclusion_phrase), max_size=1).map(tuple),
)


@settings(max_examples=600)
@given(workflow=workflows, demanded=demands, reveal=st.booleans())
def test_there_is_a_reason_exactly_where_the_matcher_excludes(
    workflow: WorkflowLabels, demanded: Constraints, reveal: bool
) -> None:
    found = list(exclusions(workflow, demanded, imposed=demanded, reveal_custom=reveal))
    assert (not found) == allowed(workflow, demanded)


@settings(max_examples=200)
@given(workflow=workflows, demanded=demands)
def test_each_reason_goes_away_with_what_it_names(workflow: WorkflowLabels, demanded: Constraints) -> None:
    """The first reason is about a demand that excludes by itself: alone it gives the same reason."""
    found = list(exclusions(workflow, demanded, imposed=demanded, reveal_custom=True))
    for dimension, wanted in demanded.values.items():
        alone = Constraints(values={dimension: wanted})
        by_itself = list(exclusions(workflow, alone, imposed=alone, reveal_custom=True))
        assert all(each in found for each in by_itself)


@settings(max_examples=200)
@given(workflow=workflows, demanded=demands)
def test_without_the_right_no_key_and_no_value_of_a_custom_label_is_said(
    workflow: WorkflowLabels, demanded: Constraints
) -> None:
    found = list(exclusions(workflow, demanded, imposed=demanded, reveal_custom=False))
    assert not any(secret in str(each) for each in found for secret in ("s3cret", "v4lue"))
    assert sum(each.rule == "custom-label" for each in found) <= 1
    shown = exclusions(workflow, demanded, imposed=demanded, reveal_custom=True)
    assert (INCIDENT_LABEL in {each.reason for each in found}) == any(each.rule == "custom-label" for each in shown)
