"""From an alert to its target and context: presets for kube-prometheus, and what no label of an alert may change."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.alerts.context import context_of_alert
from formulary_catalog.domain.alerts.episodes import Change, Episode, change_of
from formulary_catalog.domain.alerts.payloads import moment_in
from formulary_catalog.domain.alerts.reading import read_alerts
from formulary_catalog.domain.alerts.source import DEFAULTS, not_allowed, source_spec
from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import InvalidInput
from support.alerts import alert, body

EVERYWHERE = source_spec({"type": "alertmanager", "namespaces": ["*"]})
KSM = {"job": "kube-state-metrics", "pod": "prometheus-kube-state-metrics-1", "container": "kube-state-metrics"}
NODE_EXPORTER = {
    "job": "node-exporter",
    "pod": "node-exporter-x",
    "container": "node-exporter",
    "namespace": "monitoring",
}
TEXTS = st.sampled_from(["", "production", "Production", "staging", "P0"])


@pytest.mark.parametrize(
    ("labels", "target"),
    [
        ({"namespace": "shop", "deployment": "web", **KSM}, "shop/Deployment/web"),
        ({"namespace": "shop", "statefulset": "db", "pod": "db-0"}, "shop/StatefulSet/db"),
        ({"namespace": "shop", "job_name": "backup"}, "shop/Job/backup"),
        ({"namespace": "shop", "persistentvolumeclaim": "data"}, "shop/PersistentVolumeClaim/data"),
        ({"namespace": "shop", "pod": "web-1", "job": "kube-state-metrics"}, "shop/Pod/web-1"),
        ({"namespace": "monitoring", "node": "worker-1", **KSM}, "Node/worker-1"),
        ({"instance": "worker-1", **NODE_EXPORTER}, "Node/worker-1"),
        ({"namespace": "shop"}, "Namespace/shop"),
    ],
)
def test_labels_of_kube_prometheus_name_what_is_broken(labels: dict[str, str], target: str) -> None:
    alerts, refused = read_alerts(EVERYWHERE, body({**alert("f"), "labels": {"alertname": "Down", **labels}}))

    assert [str(each.target) for each in alerts] == [target], refused


def test_defaults_that_are_written_count_as_those_that_are_left_out() -> None:
    written = source_spec({"type": "alertmanager", "namespaces": ["*"], **DEFAULTS["alertmanager"]})
    sent = body({**alert("f"), "labels": {"alertname": "Down", "namespace": "monitoring", "node": "worker-1", **KSM}})

    assert [str(each.target) for each in read_alerts(written, sent)[0]] == ["Node/worker-1"]


@pytest.mark.parametrize("labels", [{"namespace": "monitoring", **KSM}, {"instance": "10.0.0.7:9100", **NODE_EXPORTER}])
def test_an_exporter_is_not_what_is_broken(labels: dict[str, str]) -> None:
    alerts, refused = read_alerts(EVERYWHERE, body({**alert("f"), "labels": {"alertname": "Down", **labels}}))

    assert (alerts, len(refused)) == ([], 1)


@given(
    demanded=st.fixed_dictionaries({"environment": TEXTS, "priority": TEXTS}),
    said=st.fixed_dictionaries({"environment": TEXTS, "priority": TEXTS}),
    no=st.booleans(),
)
def test_whatever_an_alert_says_what_its_target_demands_holds(
    demanded: dict[str, Any], said: dict[str, Any], no: bool
) -> None:
    custom = {"restarts": ("no",)} if no else {}
    target = RequestContext(namespace="shop", name="", remediation_id="", custom_labels=custom, **demanded)
    widening = {"restarts": ("yes",)}
    claimed = RequestContext(
        namespace="shop", name="", remediation_id="al-1", alert="shop/alerts", custom_labels=widening, **said
    )
    found = constraints_of(context_of_alert(claimed, target=target), strict_keys=frozenset())
    wanted = constraints_of(target, strict_keys=frozenset())

    assert wanted.values.items() <= found.values.items()
    assert (found.custom, found.strict_keys, found.detected) == (wanted.custom, wanted.strict_keys, wanted.detected)


def test_a_source_speaks_for_its_own_namespace_and_that_of_the_platform_for_any() -> None:
    shop = source_spec({"type": "alertmanager", "namespaces": ["shop"]})

    assert not not_allowed(shop, namespace="shop", shared_namespace="formulary")
    assert not not_allowed(EVERYWHERE, namespace="formulary", shared_namespace="formulary")
    assert "may not speak for namespace shop" in not_allowed(shop, namespace="team-a", shared_namespace="formulary")
    assert "all namespaces" in not_allowed(EVERYWHERE, namespace="shop", shared_namespace="formulary")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({}, "type: is required"),
        ({"namespaces": []}, "namespaces"),
        (
            {"context": {"environment": {"path": "$.x"}}},
            "context.environment: alertmanager takes label",
        ),
        ({"target": {"kind": {"first": ["cluster"]}}}, "names no kind of object"),
        ({"target": {"kind": {"value": "Deployment"}}}, "target.name is missing"),
        ({"severity": {"label": "a", "value": "b"}}, "must have exactly one of label, path, value"),
        ({"type": "webhook"}, "a webhook needs signalName"),
        ({"type": "pagerduty", "signalName": {"path": "title"}}, "must be a path such as"),
    ],
)
def test_a_mapping_that_cannot_work_is_refused_with_its_field(spec: dict[str, Any], problem: str) -> None:
    whole = {"type": "alertmanager", "namespaces": ["shop"], **spec} if spec else {}
    with pytest.raises(InvalidInput) as refused:
        source_spec(whole)

    assert problem in str(refused.value)


def test_the_defaults_are_mappings_themselves() -> None:
    for name in ("alertmanager", "pagerduty"):
        assert source_spec({"type": name, "namespaces": ["shop"], **DEFAULTS[name]})


def test_a_message_without_a_time_is_about_the_newest_episode() -> None:
    began = moment_in("2026-11-29T01:00:00Z")
    assert began is not None
    ended, firing = (Episode(number=1, firing=each, starts_at=began) for each in (False, True))

    assert change_of(ended, firing=True, starts_at=None) is Change.BEGUN
    assert change_of(firing, firing=False, starts_at=None) is Change.ENDED
    assert change_of(None, firing=False, starts_at=None) is Change.IGNORED
    assert moment_in("0001-01-01T00:00:00Z") is None


@pytest.mark.parametrize(
    "broken",
    [
        alert("a1", note="\ud800"),
        alert("a2", namespace="\ud800"),
        alert("a3", alertname="\ud800"),
        alert("\ud800"),
        alert("\ud800", namespace="team-b"),
        {**alert("a4"), "status": ["firing"]},
    ],
)
def test_a_text_that_is_none_costs_the_other_alerts_of_its_message_nothing(broken: dict[str, Any]) -> None:
    source = source_spec({"type": "alertmanager", "namespaces": ["shop"]})
    alerts, refused = read_alerts(source, body(broken, alert("c0ffee")))

    assert alerts[-1].id == "al-c0ffee"
    assert all(storable(text) for each in alerts for text in (each.id, each.signal_name, *each.labels.values()))
    assert all(storable(text) for each in refused for text in (each.fingerprint, each.problem))


def test_an_event_of_pagerduty_of_no_known_type_is_no_alert() -> None:
    source = source_spec({"type": "pagerduty", "namespaces": ["shop"]})

    assert read_alerts(source, {"event": {"event_type": ["x"], "data": {"id": "A"}}}) == ([], [])


def test_long_annotations_are_cut_and_cost_nobody_the_incident() -> None:
    texts = {"description": "x" * 5000, **{f"more{number}": "y" for number in range(200)}, "k" * 300: "z"}
    alerts, refused = read_alerts(EVERYWHERE, body({**alert("c0ffee"), "annotations": texts}))

    assert not refused
    assert len(alerts[0].annotations["description"]) == 4000
    assert len(alerts[0].annotations) == 100


def test_the_end_of_an_earlier_episode_of_pagerduty_that_comes_late_ends_nothing() -> None:
    source = source_spec({"type": "pagerduty", "namespaces": ["shop"]})
    reopened, resolved = (
        read_alerts(source, {"event": {"event_type": kind, "occurred_at": at, "data": {"id": "A", "title": "Down"}}})
        for kind, at in (("incident.reopened", "2026-11-29T03:00:00Z"), ("incident.resolved", "2026-11-29T02:00:00Z"))
    )
    began = reopened[0][0].starts_at
    assert began is not None
    known = Episode(number=2, firing=True, starts_at=began)

    assert change_of(known, firing=False, starts_at=resolved[0][0].starts_at) is Change.IGNORED


def test_alerts_that_the_sender_left_out_are_named_and_the_others_are_read() -> None:
    alerts, refused = read_alerts(EVERYWHERE, {**body(alert("c0ffee")), "truncatedAlerts": 3})

    assert [each.id for each in alerts] == ["al-c0ffee"]
    assert "left out 3 alerts of the group; raise max_alerts" in refused[0].problem
    assert read_alerts(EVERYWHERE, {**body(alert("c0ffee")), "truncatedAlerts": 0})[1] == []
