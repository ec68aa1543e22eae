"""Queries that say whether a run helped: of the installation alone, about the namespace of the target alone."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from formulary_catalog.domain.runs.measurement import NotMeasured, outcome_queries_of, samples_in
from formulary_catalog.domain.runs.run import RunTarget

EXPRESSION = 'sum(errors{namespace="$namespace",deployment="$name"}) < bool 1'
UNTIL = datetime(2026, 11, 29, 12, tzinfo=UTC)
AT = UNTIL.timestamp()


def expression(namespace: str, name: str, *, query: str = "errors") -> str:
    queries = outcome_queries_of({"url": "http://prometheus:9090", "queries": {"errors": EXPRESSION}})
    assert queries is not None
    return queries.expression(query, target=RunTarget(kind="Deployment", namespace=namespace, name=name))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"url": "http://p", "queries": {"errors": "sum(errors) < bool 1"}}, "Must hold $namespace"),
        ({"url": "prometheus:9090"}, "URL scheme should be 'http' or 'https'"),
        ({"url": "http://p", "queries": {"Errors!": EXPRESSION}}, "queries"),
        ("[", "Invalid JSON"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_with_the_rule(setting: Any, said: str) -> None:
    with pytest.raises(PydanticCustomError, match=said.replace("$", r"\$")):
        outcome_queries_of(setting)


def test_a_query_is_about_the_target_and_no_name_leads_out_of_it() -> None:
    assert expression("shop", "web") == 'sum(errors{namespace="shop",deployment="web"}) < bool 1'
    assert expression('bank"} or errors{a="', "web").count('"') == EXPRESSION.count('"')


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"namespace": "shop", "name": "web", "query": "latency"}, "is not one of this installation"),
        ({"namespace": "", "name": "worker-1"}, "is about targets in a namespace alone"),
    ],
)
def test_what_a_query_cannot_be_about_is_not_asked(given: dict[str, str], said: str) -> None:
    with pytest.raises(NotMeasured, match=said):
        expression(**given)


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ([], "has 0 series, and not one"),
        ([[[AT, "1"]], [[AT, "1"]]], "has 2 series, and not one"),
        ([[[AT, "0.7"]]], "was 0.7, and neither 0 nor 1"),
        ([[[AT - 60, "1"]]], "had no value at the end of the window"),
        ([[[AT - 31, "0"], [AT, "1"]]], "had no value from"),
    ],
)
def test_what_is_no_series_of_ones_and_zeros_to_the_end_says_nothing(series: list[Any], said: str) -> None:
    answer = {"data": {"result": [{"values": values} for values in series]}}
    with pytest.raises(NotMeasured, match=said):
        samples_in(answer, name="errors", until=UNTIL, step=15)


def test_ones_and_zeros_say_whether_all_was_well() -> None:
    answer = {"data": {"result": [{"values": [[AT - 1, "0"], [AT, "1"]]}]}}
    assert [well for _, well in samples_in(answer, name="errors", until=UNTIL, step=15)] == [False, True]
