"""What a caller may ask: bounds, and what counts as absent."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.search.query import MAX_QUERY_LENGTH
from formulary_catalog.domain.search.request import (
    MAX_EXCLUDED_KEYWORDS,
    MAX_LABEL_LENGTH,
    MAX_LABEL_VALUES,
    ContextReference,
    search_request,
)
from formulary_catalog.domain.workflows.labels import DIMENSIONS
from formulary_catalog.domain.workflows.requests import listing_request
from formulary_catalog.domain.workflows.visible import visible
from formulary_catalog.errors import InvalidInput

blanks = st.sampled_from(["", " ", "\t\n"])
label_values = st.text(
    st.characters(exclude_categories=["Cc", "Cf", "Cs", "Mn", "Lo", "Zl", "Zp"]), max_size=MAX_LABEL_LENGTH
).filter(lambda text: visible(text) == text)


@given(
    labels=st.dictionaries(st.sampled_from(DIMENSIONS), st.lists(label_values | blanks, max_size=4)),
    keywords=st.lists(label_values | blanks, max_size=4),
)
def test_blank_values_count_as_absent_and_others_are_kept_stripped(
    labels: dict[str, list[str]], keywords: list[str]
) -> None:
    request = search_request(query="q", labels=labels, exclude_keywords=keywords)
    kept = {
        dimension: tuple(value.strip() for value in values if value.strip()) for dimension, values in labels.items()
    }
    assert request.labels == {dimension: values for dimension, values in kept.items() if values}
    assert request.exclude_keywords == tuple(keyword.strip() for keyword in keywords if keyword.strip())


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": " \n"}, "query"),
        ({"query": "x" * (MAX_QUERY_LENGTH + 1)}, "query"),
        ({"query": "a\0b"}, "query"),
        ({"query": "a\ud800b"}, "query"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 51}, "top_k"),
        ({"min_confidence": -0.1}, "min_confidence"),
        ({"min_confidence": 1.1}, "min_confidence"),
        ({"min_confidence": float("nan")}, "min_confidence"),
        ({"labels": {"severity": ["x" * (MAX_LABEL_LENGTH + 1)]}}, "label.severity"),
        ({"labels": {"signal_type": ["x"] * (MAX_LABEL_VALUES + 1)}}, "label.signal-type"),
        ({"labels": {"risk_tolerance": ["a\0"]}}, "label.risk-tolerance"),
        ({"labels": {"colour": ["blue"]}}, "colour"),
        ({"exclude_keywords": ["x"] * (MAX_EXCLUDED_KEYWORDS + 1)}, "exclude_keywords"),
        ({"exclude_keywords": ["x" * (MAX_LABEL_LENGTH + 1)]}, "exclude_keywords"),
        ({"exclude_keywords": ["\udfff"]}, "exclude_keywords"),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_one_line_that_names_the_field(
    arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        search_request(**{"query": "OOMKilled critical", **arguments})
    assert refusal.value.field == field
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 300
    assert "give" in str(refusal.value) or "send" in str(refusal.value) or "known labels" in str(refusal.value)


def test_the_bounds_themselves_are_allowed() -> None:
    request = search_request(query="x" * MAX_QUERY_LENGTH, top_k=50, min_confidence=1)
    assert (request.top_k, request.min_confidence) == (50, 1)
    assert search_request(query="x", top_k=1, min_confidence=0).top_k == 1


def test_no_length_of_the_page_is_given_unless_the_caller_gives_one() -> None:
    assert search_request(query="x").top_k is None


def test_custom_labels_show_in_no_representation_and_empty_ones_are_dropped() -> None:
    request = search_request(query="q", custom_labels={"team": ("payments",), "region": ()})
    assert request.custom_labels == {"team": ("payments",)}
    assert "payments" not in repr(request)


def test_a_reference_is_absent_only_when_every_source_is() -> None:
    assert not ContextReference()
    assert ContextReference(analysis="shop/oom")
    assert ContextReference(meta_remediation_id="rr-1")
    assert ContextReference(remediation_id="rr-1")


HIDING = st.sampled_from("\x01\x1b\x7f\u061c\u200e\u202e\u2066\u2028\u200b\ufeff\U000e0041\u3164")


@given(hiding=HIDING)
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (lambda text: {"action_type": text}, "action_type"),
        (lambda text: {"namespace": text}, "namespace"),
        (lambda text: {"keywords": ["memory", text]}, "keywords"),
        (lambda text: {"exclude_keywords": [text]}, "exclude_keywords"),
        (lambda text: {"labels": {"signal_type": [text]}}, "label.signal-type"),
        (lambda text: {"detected_labels": {"hpaEnabled": text}}, "detected_labels"),
        (lambda text: {"detected_labels": {text: "true"}}, "detected_labels"),
    ],
)
def test_what_narrows_a_search_may_hide_nothing_in_the_words_of_a_listing(
    hiding: str, arguments: Callable[[str], dict[str, Any]], field: str
) -> None:
    text = f"a{hiding}b"
    with pytest.raises(InvalidInput) as listing:
        listing_request(action_type=text)
    with pytest.raises(InvalidInput) as refused:
        search_request(query="q", **arguments(text))
    assert refused.value.field == field
    assert str(refused.value) == str(listing.value).replace("action_type", field, 1)


@given(hiding=HIDING)
def test_a_query_is_free_text_and_taken_as_it_is(hiding: str) -> None:
    assert search_request(query=f"a{hiding}b").query == f"a{hiding}b"
