"""The chart as Argo CD and Flux install it: without a look into the cluster, from the values of the examples."""

from typing import Any

import pytest
import yaml

from support import charts

EXAMPLES = charts.CHART.parents[1] / "examples"
OWN_KEY: dict[str, Any] = {**charts.EXTERNAL, "execution": {"mode": "auto", "inputKeySecret": "formulary-input"}}


def _example(name: str, kind: str) -> dict[str, Any]:
    """The first object of a kind in an example."""
    documents = yaml.safe_load_all((EXAMPLES / name).read_text())
    spec: dict[str, Any] = next(document for document in documents if document["kind"] == kind)["spec"]
    return spec


@pytest.mark.parametrize("values", [{}, OWN_KEY], ids=["default", "own-key"])
def test_each_rendering_without_the_cluster_is_the_same(values: dict[str, Any]) -> None:
    assert charts.templates(values) == charts.templates(values)
    secrets = {found["metadata"]["name"] for found in charts.render(values) if found["kind"] == "Secret"}
    assert secrets == set()


def test_without_a_key_of_its_own_each_rendering_makes_another_in_the_secret_that_the_page_names() -> None:
    (made,) = [found for found in charts.render(charts.EXTERNAL) if found["kind"] == "Secret"]
    assert made["metadata"]["name"] == "formulary-input-key"
    page = (charts.CHART.parents[1] / "docs" / "install.md").read_text()
    assert "{kind: Secret, name: formulary-input-key, jsonPointers: [/data]}" in page


def test_the_values_of_the_examples_fit_the_chart() -> None:
    for values in (
        _example("argocd.yaml", "Application")["source"]["helm"]["valuesObject"],
        _example("flux.yaml", "HelmRelease")["values"],
    ):
        charts.chart().validate_schema(values)
        assert charts.templates(values) == charts.templates({})


def test_the_examples_install_the_version_of_this_chart() -> None:
    assert _example("argocd.yaml", "Application")["source"]["targetRevision"] == charts.chart().version
    assert _example("flux.yaml", "OCIRepository")["ref"]["tag"] == charts.chart().version
