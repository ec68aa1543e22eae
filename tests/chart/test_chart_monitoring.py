"""Alerts, runbooks and the dashboard: about metrics that exist, and complete."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import HelmValuesError

from formulary_catalog.metrics import Metrics
from formulary_operator.admission.review import ASKED
from formulary_operator.metrics import OperatorMetrics
from support import charts
from support.metrics import served

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
ALERTS: dict[str, dict[str, Any]] = {
    file.stem: yaml.safe_load(file.read_text()) for file in (charts.CHART / "files" / "alerts").glob("*.yaml")
}
DASHBOARD = json.loads((charts.CHART / "files" / "dashboards" / "formulary.json").read_text())
KNOWN = {name for each in (Metrics(), OperatorMetrics()) for name in served(each.exposition().decode())}
RULES = {**charts.EXTERNAL, "monitoring": {"prometheusRule": {"enabled": True}}}
FOREIGN = {"apiserver_admission_webhook_fail_open_count"}
"""Metrics of the API server: an operator that is not reached counts nothing, and everything passes unrecorded."""
_METRIC = re.compile(r"\bformulary_\w+|\b[a-z_]+(?=\{)")


def unknown_metrics(expression: str) -> set[str]:
    """The metrics in an expression that nobody has who is scraped."""
    found = {re.sub(r"_bucket$", "", name) for name in _METRIC.findall(expression)}
    return found - KNOWN - FOREIGN


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == ALERTS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_a_runbook_says_meaning_impact_diagnosis_and_mitigation(name: str) -> None:
    headings = re.findall(r"^#+ (.+)$", (RUNBOOKS / f"{name}.md").read_text(), re.MULTILINE)

    assert headings == [name, "Meaning", "Impact", "Diagnosis", "Mitigation"]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_named_as_its_file_and_about_metrics_that_exist(name: str) -> None:
    alert = ALERTS[name]

    assert alert["alert"] == name
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert unknown_metrics(alert["expr"]) == set()


def test_a_webhook_that_the_api_server_does_not_reach_raises_an_alert_that_says_what_must_be_scraped() -> None:
    (foreign,) = FOREIGN
    page = (RUNBOOKS / "FormularyAdmissionFailing.md").read_text()

    selector = re.search(foreign + r'\{name=~"([^"]+)"\}', ALERTS["FormularyAdmissionFailing"]["expr"])
    assert selector is not None
    assert [webhook for webhook in ASKED if not re.fullmatch(selector[1], webhook)] == []
    assert foreign in page
    assert "must be scraped" in page


def test_the_dashboard_is_about_metrics_that_exist_and_shows_all_of_them() -> None:
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    shown = {name for expression in expressions for name in _METRIC.findall(expression)}

    assert {name for expression in expressions for name in unknown_metrics(expression)} == set()
    # What the server knows of contexts only `formulary up` fills; in a cluster the operator counts them.
    assert KNOWN - {re.sub(r"_bucket$", "", name) for name in shown} == {"formulary_contexts"}


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]]

    assert len(set(places)) == len(places)


def test_alerts_link_to_their_runbooks_and_can_be_left_out() -> None:
    rule = charts.only(charts.render(charts.ci_values()["cnpg"]), "PrometheusRule")
    rules = {r["alert"]: r for r in rule["spec"]["groups"][0]["rules"]}

    assert rules.keys() == ALERTS.keys() - {"FormularySearchSlow"}
    link = rules["FormularySweepRefused"]["annotations"]["runbook_url"]
    assert link == "https://runbooks.example/formulary/FormularySweepRefused.md"


def test_an_alert_without_an_absolute_address_of_its_runbook_carries_none() -> None:
    rule = charts.only(charts.render(RULES), "PrometheusRule")

    for alert in rule["spec"]["groups"][0]["rules"]:
        assert "runbook_url" not in alert["annotations"]
        assert alert["annotations"]["runbook"].startswith(f"docs/runbooks/{alert['alert']}.md of Formulary ")
    with pytest.raises(HelmValuesError, match="runbookBase"):
        charts.chart().validate_schema({"monitoring": {"prometheusRule": {"runbookBase": "wiki/runbooks"}}})


@pytest.mark.parametrize("namespace", ["formulary", "catalog-2"])
def test_an_alert_is_about_the_release_in_its_own_namespace(namespace: str) -> None:
    rule = charts.only(charts.render(RULES, namespace=namespace), "PrometheusRule")

    expressions = [alert["expr"] for alert in rule["spec"]["groups"][0]["rules"]]
    selectors = [text for expression in expressions for text in re.findall(r"\bformulary_\w+(\S*)", expression)]
    assert len(selectors) >= len(ALERTS)
    assert [s for s in selectors if not s.startswith(f'{{namespace="{namespace}"')] == []
