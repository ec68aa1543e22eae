"""Alerts as callers send them: what is taken, and one line that names the alert and what is wrong with it."""

from typing import Any

import pytest

from formulary_catalog.domain.coverage.alerts import AT_ONCE, MAX_SUMMARY, Alert
from formulary_catalog.edges.rest.openapi import body_schema
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.coverage import AlertsArguments


def read(*alerts: Any) -> list[Alert]:
    return AlertsArguments.read({"alerts": list(alerts)}).request


def test_each_alert_is_taken_once_and_its_texts_on_one_line() -> None:
    first = {"name": " Kube\tDown ", "severity": None, "summary": "It is\ndown."}
    assert read(first, {"name": "kube down", "severity": ""}) == [Alert(name="Kube Down", summary="It is down.")]
    assert AlertsArguments.read({"alerts": '[{"name": "A"}]'}).request == [Alert(name="A")]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("Watchdog", "alerts[1] is 'Watchdog', which is not an object; give a value such as {"),
        ([{"name": "A"}], "alerts[1] is ["),
        ({}, "alerts[1].name is missing; give it, such as 'KubePodCrashLooping'"),
        ({"name": " "}, "alerts[1].name is missing"),
        ({"name": 7}, "alerts[1].name is 7, which is not text"),
        ({"name": "A", "summary": {"x": 1}}, 'alerts[1].summary is {"x": 1}, which is not text'),
        ({"name": "A", "expr": "up == 0"}, "unknown argument 'alerts[1].expr'; allowed are: alerts[1].name, "),
        ({"nam": "A"}, "unknown argument 'alerts[1].nam'; did you mean 'alerts[1].name'?"),
        ({"name": "A" * 254}, "alerts[1].name has 254 characters; give at most 253"),
        ({"name": "A", "summary": "x" * 301}, f"alerts[1].summary has 301 characters; give at most {MAX_SUMMARY}"),
        ({"name": "\0"}, "alerts contains a NUL"),
    ],
)
def test_what_is_no_alert_is_refused_by_its_place(item: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read({"name": "Fine"}, item)
    assert said in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_bounded_number_is_taken() -> None:
    assert len(read(*({"name": f"A{each}"} for each in range(AT_ONCE)))) == AT_ONCE
    with pytest.raises(InvalidInput, match=f"alerts has {AT_ONCE + 1} entries; give at most {AT_ONCE}"):
        read(*({"name": "A"} for _ in range(AT_ONCE + 1)))
    with pytest.raises(InvalidInput, match="alerts has 0 entries; give at least 1"):
        read()
    with pytest.raises(InvalidInput, match="alerts is missing"):
        AlertsArguments.read({})


def test_the_schema_of_the_body_describes_each_alert_in_place() -> None:
    items = body_schema(AlertsArguments)["properties"]["alerts"]["items"]
    assert (items["type"], items["required"], items["additionalProperties"]) == ("object", ["name"], False)
    assert {name: member["maxLength"] for name, member in items["properties"].items()} == {
        "name": 253,
        "severity": 253,
        "summary": MAX_SUMMARY,
    }
