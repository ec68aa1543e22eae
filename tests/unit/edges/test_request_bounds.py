"""What a caller may ask: bounds, and what counts as absent."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.search.request import (
    MAX_LABEL_VALUES,
    MAX_QUERY_LENGTH,
    ContextReference,
    SearchRequest,
    search_request,
)
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.labels import DIMENSIONS, wire_name
from formulary_catalog.edges.console.pages.searching import TrialArguments
from formulary_catalog.edges.rest.search import SearchBody
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.browsing import ListArguments, NameArguments, RelatedArguments
from formulary_catalog.operations.arguments.catalog import SearchArguments
from formulary_catalog.operations.arguments.reading import ExplainArguments
from formulary_catalog.operations.search import search_request_of

blanks = st.sampled_from(["", " ", "\t\n"])
label_values = st.text(
    st.characters(exclude_categories=["Cc", "Cf", "Cs", "Mn", "Lo", "Zl", "Zp"], exclude_characters=","),
    max_size=MAX_LABEL_LENGTH,
).filter(lambda text: visible(text) == text)


def searched(**given: Any) -> SearchRequest:
    """The search that a program asks for."""
    return search_request_of(SearchBody.read({"query": "q", **given}), context=ContextReference())


@given(
    labels=st.dictionaries(st.sampled_from(DIMENSIONS), st.lists(label_values | blanks, max_size=4)),
    keywords=st.lists(label_values | blanks, max_size=4),
)
def test_blank_values_count_as_absent_and_others_are_kept_stripped(
    labels: dict[str, list[str]], keywords: list[str]
) -> None:
    named = {f"label.{wire_name(dimension)}": values for dimension, values in labels.items()}
    request = searched(**named, exclude_keywords=keywords)
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
        ({"label.severity": ["x" * (MAX_LABEL_LENGTH + 1)]}, "label.severity"),
        ({"label.signal-type": ["x"] * (MAX_LABEL_VALUES + 1)}, "label.signal-type"),
        ({"label.risk-tolerance": ["a\0"]}, "label.risk-tolerance"),
        ({"label.colour": ["blue"]}, "label.colour"),
        ({"exclude_keywords": ["x"] * (MAX_LABEL_VALUES + 1)}, "exclude_keywords"),
        ({"exclude_keywords": ",".join(map(str, range(MAX_LABEL_VALUES + 1)))}, "exclude_keywords"),
        ({"exclude_keywords": ["x" * (MAX_LABEL_LENGTH + 1)]}, "exclude_keywords"),
        ({"exclude_keywords": "a," + "x" * (MAX_LABEL_LENGTH + 1)}, "exclude_keywords"),
        ({"exclude_keywords": ["\udfff"]}, "exclude_keywords"),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_one_line_that_names_the_field(
    arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        searched(**{"query": "OOMKilled critical", **arguments})
    assert refusal.value.field == field
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 600
    assert any(way_out in str(refusal.value) for way_out in ("give", "send", "allowed are"))


def test_the_bounds_themselves_are_allowed() -> None:
    request = searched(query="x" * MAX_QUERY_LENGTH, top_k=50, min_confidence=1)
    assert (request.top_k, request.min_confidence) == (50, 1)
    assert searched(top_k=1, min_confidence=0).top_k == 1


def test_no_length_of_the_page_is_given_unless_the_caller_gives_one() -> None:
    assert searched().top_k is None


def test_a_label_that_is_no_dimension_is_refused_where_no_model_knows_it() -> None:
    with pytest.raises(InvalidInput, match="label 'colour' is unknown; known labels: signal-type, severity"):
        search_request(query="q", labels={"colour": ["blue"]})


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
    ("model", "given_with", "field"),
    [
        (SearchArguments, lambda text: {"query": "q", "action_type": text}, "action_type"),
        (SearchBody, lambda text: {"query": "q", "namespace": text}, "namespace"),
        (SearchArguments, lambda text: {"query": "q", "keywords": ["memory", text]}, "keywords"),
        (SearchBody, lambda text: {"query": "q", "exclude_keywords": f"memory,{text}"}, "exclude_keywords"),
        (SearchArguments, lambda text: {"query": "q", "label_signal_type": text}, "label.signal-type"),
        (SearchBody, lambda text: {"query": "q", "label.signal-type": ["a", text]}, "label.signal-type"),
        (SearchBody, lambda text: {"query": "q", "filters": {"severity": [text]}}, "filters.severity"),
        (ExplainArguments, lambda text: {"workflow": "w", "query": "q", "label.priority": text}, "label.priority"),
        (TrialArguments, lambda text: {"query": "q", "detected": f"hpaEnabled={text}"}, "detected"),
        (TrialArguments, lambda text: {"query": "q", "detected": text}, "detected"),
        (TrialArguments, lambda text: {"query": "q", "label.severity": text}, "label.severity"),
        (ListArguments, lambda text: {"signal_type": text}, "signal_type"),
        (RelatedArguments, lambda text: {"entity": text}, "entity"),
        (NameArguments, lambda text: {"name": text}, "name"),
    ],
)
def test_what_names_or_narrows_may_hide_nothing(
    hiding: str, model: type[Arguments], given_with: Callable[[str], dict[str, Any]], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        model.read(given_with(f"a{hiding}b"))
    assert refused.value.field == field
    assert f"{field} contains U+" in str(refused.value)
    assert "which cannot be seen or changes how the text reads; remove it" in str(refused.value)


@given(hiding=HIDING)
def test_a_query_is_free_text_and_taken_as_it_is(hiding: str) -> None:
    assert searched(query=f"a{hiding}b").query == f"a{hiding}b"
