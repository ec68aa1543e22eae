"""Which usual value of a label is meant by one that is none of them."""

import pytest

from formulary_catalog.domain.workflows.labels import nearest_dimension, nearest_usual


@pytest.mark.parametrize(
    ("dimension", "value", "meant"),
    [
        ("environment", "Prodcution", "production"),
        ("environment", "prod", "production"),
        ("environment", " DEV ", "development"),
        ("severity", "criticall", "critical"),
        ("severity", "warn", "warning"),
        ("signal_type", "oomkiled", "OOMKilled"),
        ("risk_tolerance", "med", "medium"),
    ],
)
def test_a_misspelt_or_shortened_value_means_the_usual_one(dimension: str, value: str, meant: str) -> None:
    assert nearest_usual(dimension, value) == meant


@pytest.mark.parametrize(
    ("dimension", "value"),
    [
        ("environment", "production"),
        ("environment", "PreProduction"),
        ("environment", "uat"),
        ("environment", "*"),
        ("environment", "pr"),
        ("environment", ""),
        ("environment", "production-eu"),
        ("environment", "produce"),
        ("team", "prod"),
        ("environment", "test2"),
        ("severity", "warning"),
        ("priority", "P10"),
        ("signal_type", "KubeNodeNotReady"),
        ("signal_type", "KubePodNotReady"),
        ("signal_type", "BackOff"),
        ("signal_type", "NodeReady"),
        ("signal_type", "FailedUnMount"),
        ("signal_type", "Failed"),
        ("signal_type", "ProgressDeadlineExceeded"),
        ("cluster", "prod"),
        ("business_category", "critcal"),
    ],
)
def test_another_value_means_itself(dimension: str, value: str) -> None:
    assert nearest_usual(dimension, value) == ""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Severty", "severity"),
        (" business-categroy ", "business_category"),
        ("signaltype", "signal_type"),
        ("clusters", "cluster"),
        ("signal-name", "signal_type"),
        ("category", ""),
        ("team", ""),
        ("", ""),
    ],
)
def test_a_misspelt_name_of_a_label_means_the_nearest_one(name: str, meant: str) -> None:
    assert nearest_dimension(name) == meant


def test_only_the_beginning_of_a_long_name_is_compared() -> None:
    assert nearest_dimension("severity" + "y" * 1000) == nearest_usual("environment", "x" * 1000) == ""
