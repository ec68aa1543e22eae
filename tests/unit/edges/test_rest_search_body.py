"""The body of a search over REST: what it may hold and how it is read (DESIGN section 7)."""

import math
from typing import Any

import pytest

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.edges.rest.search import SearchBody, read_search
from formulary_catalog.errors import InvalidInput
from support.access import Rights


def body(**given: Any) -> dict[str, Any]:
    return {"query": "OOMKilled", **given}


@pytest.mark.parametrize(
    "labels",
    [
        {"label.signal-type": ["OOMKilled", "Evicted"]},
        {"label_signal_type": ["OOMKilled", "", "Evicted"], "label.signal-type": None, "filters": None},
        {"filters": {"signal-type": ["OOMKilled", "Evicted"]}},
        {"filters": {"signal_type": ["OOMKilled", "Evicted"]}},
        {"filters": {"label.signal-type": ["OOMKilled", "Evicted"]}},
    ],
)
def test_rest_takes_lists_of_label_values_flat_or_nested(labels: dict[str, Any]) -> None:
    request = read_search(body(**labels), context=NOWHERE, caller=LOCAL)

    assert request.labels == {"signal_type": ("OOMKilled", "Evicted")}


def test_rest_does_not_split_label_values_at_commas() -> None:
    request = read_search(body(**{"label.component": "a, b"}), context=NOWHERE, caller=LOCAL)

    assert request.labels == {"component": ("a, b",)}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"filters": ["signal-type"]}, "filters"),
        ({"filters": {"signal-typ": "x"}}, "filters.signal-typ"),
        ({"filters": {"severity": "low"}, "label.severity": "high"}, "label.severity"),
        ({"top_k": "5"}, "top_k"),
        ({"limits": 5}, "limits"),
        ({"label.severity": ["high", None]}, "label.severity"),
        ({"label.severity": [""] * 51}, "label.severity"),
        ({"embedding": [0.1] * 383}, "embedding"),
        ({"embedding": [0.0] * 384}, "embedding"),
        ({"embedding": [math.inf] * 384}, "embedding"),
        ({"embedding": [math.nan] * 384}, "embedding"),
        ({"embedding": [10**400] * 384}, "embedding"),
        ({"embedding": ["0.1"] * 384}, "embedding"),
        ({"embedding": [True] * 384}, "embedding"),
        ({"filters": {"custom_labels": ["team"]}}, "filters.custom_labels"),
        ({"filters": {"custom_labels": {"team": 1}}}, "filters.custom_labels"),
        ({"filters": {"custom_labels": {"team": "\0"}}}, "filters.custom_labels"),
        ({"filters": {"custom_labels": {"": "payments"}}}, "filters.custom_labels"),
        ({"filters": {"custom_labels": {"team": ["x"] * 51}}}, "filters.custom_labels"),
    ],
)
def test_rest_refuses_what_it_does_not_understand_and_names_it(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_search(body(**given), context=NOWHERE, caller=LOCAL)

    assert refused.value.field == field
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("numbers", [[1] * 384, [1e308] * 384, [0.0] * 383 + [5e-324]])
def test_an_embedding_is_brought_to_length_one(numbers: list[float]) -> None:
    request = read_search(body(embedding=numbers), context=NOWHERE, caller=LOCAL)

    assert request.embedding is not None
    assert math.hypot(*request.embedding) == pytest.approx(1)


def test_custom_labels_are_taken_only_from_a_caller_that_may_set_a_context() -> None:
    given = body(filters={"custom_labels": {"team": ["payments"], "region": "eu"}})

    request = read_search(given, context=NOWHERE, caller=LOCAL)

    assert request.custom_labels == {"team": ("payments",), "region": ("eu",)}
    with pytest.raises(InvalidInput, match="may not be set by this caller"):
        read_search(given, context=NOWHERE, caller=Caller(name="agent", access=Rights(see={"shop"})))


def test_the_remediation_id_of_a_body_joins_the_headers() -> None:
    context = ContextReference(remediation_id="rr-1")

    request = read_search(body(remediation_id="rr-2"), context=context, caller=LOCAL)

    assert request.context.ids == ("rr-1", "rr-2")


def test_what_is_kept_of_a_refused_body_holds_no_custom_labels() -> None:
    smuggled = {"custom_labels": {"team": "payments"}, "customLabels": {"team": "payments"}, "team": "payments"}
    given = body(embedding=[0.0], team="payments", filters={"severity": "high", **smuggled})

    assert SearchBody.recordable(given) == {
        "query": "OOMKilled",
        "unknown_arguments": ["team"],
        "filters": {"severity": "high", "unknown_arguments": ["customLabels", "team"]},
    }


def test_a_label_given_flat_and_in_filters_agrees_in_any_order_and_case() -> None:
    agreeing = body(**{"label.severity": ["critical", "high"]}, filters={"severity": ["High", "critical", "high"]})

    assert read_search(agreeing, context=NOWHERE, caller=LOCAL).labels == {"severity": ("critical", "high")}
    with pytest.raises(InvalidInput, match=r"label\.severity is given twice, in filters with another value"):
        read_search(agreeing | {"filters": {"severity": ["high"]}}, context=NOWHERE, caller=LOCAL)


def test_a_filter_is_named_as_it_was_sent_and_given_once() -> None:
    with pytest.raises(InvalidInput, match=r"'filters\.severety'; did you mean 'filters\.severity'\? allowed are: "):
        read_search(body(filters={"severety": "high"}), context=NOWHERE, caller=LOCAL)

    with pytest.raises(InvalidInput, match=r"filters\.severity is given twice"):
        read_search(body(filters={"severity": "high", "label.severity": "low"}), context=NOWHERE, caller=LOCAL)


NOWHERE = ContextReference()
