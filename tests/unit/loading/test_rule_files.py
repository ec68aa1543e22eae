"""Rule files as people have them: what is read of them, and one clear error for each that is broken."""

import json
from pathlib import Path

import pytest

from formulary_catalog.domain.coverage.alerts import (
    AT_ONCE,
    MAX_ALERTS,
    Alert,
    ignored_by_rules,
    portions,
)
from formulary_catalog.errors import InvalidInput, StartupError
from formulary_catalog.loading.rule_files import alerts_in_files, alerts_in_text, ignored_in_file, ignored_in_text

PLAIN = """
groups:
  - name: shop
    rules:
      - record: shop:requests
        expr: sum(rate(requests[5m]))
      - alert: CartIsFull
        expr: vector(1)
        labels: {severity: critical}
        annotations:
          description: 'Cart "{{ $labels.cart }}" of {{ $labels.shop }} holds too much.'
      - alert: CartIsFull
        expr: vector(2)
        labels: {severity: warning}
      - alert: ShopIsSlow
        expr: vector(1)
        labels: {severity: "{{ $labels.severity }}"}
"""
OBJECT = """
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: shop}
spec:
  groups:
    - name: shop
      rules:
        - alert: ShopIsDown
          expr: vector(1)
          annotations: {summary: Nobody can buy anything., description: Longer.}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {groups: text}\n"


def test_plain_rule_files_are_read_without_recording_rules_and_placeholders() -> None:
    assert alerts_in_text(PLAIN, name="rules.yaml").alerts == [
        Alert(name="CartIsFull", severity="critical", summary="Cart of holds too much."),
        Alert(name="ShopIsSlow"),
    ]


def test_objects_and_lists_of_objects_are_read_beside_other_kinds(tmp_path: Path) -> None:
    indented = OBJECT.replace("\n", "\n    ").strip()
    (tmp_path / "list.yaml").write_text(f"apiVersion: v1\nkind: List\nitems:\n  - {indented}\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "both.yml").write_text(f"{CONFIG_MAP}---\n{PLAIN}")
    (tmp_path / "notes.txt").write_text("no rules")
    names = [alert.name for alert in alerts_in_files(tmp_path).alerts]
    assert sorted(names) == ["CartIsFull", "ShopIsDown", "ShopIsSlow"]


VM_RULE = OBJECT.replace("monitoring.coreos.com/v1", "operator.victoriametrics.com/v1beta1").replace(
    "kind: PrometheusRule", "kind: VMRule"
)
OF_API = {
    "status": "success",
    "data": {
        "groups": [
            {
                "name": "shop",
                "file": "shop.yaml",
                "rules": [
                    {"name": "shop:requests", "type": "recording", "query": "1"},
                    {
                        "name": "ShopIsDown",
                        "type": "alerting",
                        "labels": {"severity": "critical"},
                        "annotations": {"summary": "Nobody can buy anything."},
                        "alerts": [],
                    },
                ],
            }
        ]
    },
}


def test_rules_are_read_from_every_form_in_which_people_have_them(tmp_path: Path) -> None:
    shop = Alert(name="ShopIsDown", summary="Nobody can buy anything.")
    assert alerts_in_text(VM_RULE, name="rules") == ([shop], [])
    config_map = {"kind": "ConfigMap", "data": {"alerting_rules.yml": PLAIN, "prometheus.yml": "global: {}"}}
    assert [each.name for each in alerts_in_text(json.dumps(config_map), name="x").alerts] == [
        "CartIsFull",
        "ShopIsSlow",
    ]
    (tmp_path / "rules.json").write_text(json.dumps(OF_API | {"padding": "x" * 2**20}))
    (alert,) = alerts_in_files(tmp_path / "rules.json").alerts
    assert alert == Alert(name="ShopIsDown", severity="critical", summary="Nobody can buy anything.")
    (tmp_path / "rules.json").unlink()
    (tmp_path / "shop.rules").write_text(PLAIN)
    assert len(alerts_in_files(tmp_path).alerts) == 2


def test_what_holds_no_rules_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(f"{CONFIG_MAP}---\n{PLAIN}")
    (tmp_path / "values.yaml").write_text("replicas: 3")
    (tmp_path / "readme.md").write_text("no rules")
    found = alerts_in_files(tmp_path)
    assert sorted(found.skipped) == [
        "readme.md (no YAML or JSON)",
        "rules.yaml (document 1) (kind ConfigMap)",
        "values.yaml (no groups of rules)",
    ]
    (note,) = found.notes
    assert note.startswith("skipped: rules.yaml")
    (tmp_path / "rules.yaml").unlink()
    with pytest.raises(InvalidInput, match=r"no alerting rules \(skipped: values.yaml \(no groups of rules\), readme"):
        alerts_in_files(tmp_path)


def test_a_broken_rule_file_in_a_config_map_is_named_by_its_key() -> None:
    config_map = {"kind": "ConfigMap", "data": {"shop.yml": "groups: ["}}
    with pytest.raises(InvalidInput, match=r"x: shop\.yml: line 2"):
        alerts_in_text(json.dumps(config_map), name="x")


def test_a_helm_template_is_to_be_rendered_first() -> None:
    with pytest.raises(InvalidInput, match="rules: is a Helm template; render it with `helm template` first"):
        alerts_in_text(f"{{{{- if .Values.rules.enabled }}}}\n{OBJECT}{{{{- end }}}}\n", name="rules")


def test_a_rule_says_itself_that_it_needs_no_remedy_and_all_of_a_name_must() -> None:
    text = """
groups:
  - rules:
      - {alert: Watchdog, annotations: {formulary_no_remedy: ' always\n fires '}}
      - {alert: DiskFills, labels: {severity: info}, annotations: {formulary_no_remedy: only tells}}
      - {alert: DiskFills, labels: {severity: critical}}
      - {alert: Blank, annotations: {formulary_no_remedy: ' '}}
      - {alert: Odd, annotations: {formulary_no_remedy: {a: b}}}
"""
    alerts = alerts_in_text(text, name="rules.yaml").alerts
    assert [(each.name, each.ignored) for each in alerts] == [
        ("Watchdog", "always fires"),
        ("DiskFills", ""),
        ("Blank", ""),
        ("Odd", ""),
    ]
    assert ignored_by_rules(alerts) == {"Watchdog": "always fires"}
    assert list(alerts[0].as_json()) == ["name"]


def test_an_alert_asks_what_an_agent_would_ask() -> None:
    (alert,) = alerts_in_text(OBJECT, name="rules.yaml").alerts
    assert alert.query == "ShopIsDown Nobody can buy anything."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: [\n", "rules.yaml: line 2: "),
        ("groups: []\n", "rules.yaml: holds rules, and none of them is an alert; give a PrometheusRule"),
        (CONFIG_MAP, "holds no alerting rules (skipped: rules.yaml (kind ConfigMap)); give a PrometheusRule"),
        ("", "rules.yaml: holds no alerting rules"),
        ("- just\n- a list\n", "rules.yaml: is a list"),
        ("groups: {}\n", "none of them is an alert"),
        ("groups: [{rules: [{alert: 7}, 3]}, 4]\n", "none of them is an alert"),
        (f"# {'x' * 1024**2}\ngroups: []\n", "rules.yaml: is larger than 1024 KiB; split it"),
    ],
)
def test_a_text_without_alerts_is_refused_in_one_clear_line(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        alerts_in_text(text, name="rules.yaml")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_too_many_alerts_are_refused_with_their_number() -> None:
    rules = "\n".join(f"      - alert: Alert{number}" for number in range(MAX_ALERTS + 1))
    with pytest.raises(InvalidInput, match=f"holds {MAX_ALERTS + 1} alerts; at most {MAX_ALERTS}"):
        alerts_in_text(f"groups:\n  - rules:\n{rules}\n", name="rules.yaml")


def test_places_without_rules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="no such file or directory"):
        alerts_in_files(tmp_path / "missing.yaml")
    with pytest.raises(InvalidInput, match="holds no alerting rules"):
        alerts_in_files(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\0\1")
    with pytest.raises(InvalidInput, match=r"binary\.yaml: is a binary file"):
        alerts_in_files(tmp_path)


def test_alerts_are_ignored_for_a_reason_alone() -> None:
    assert ignored_in_text("- {alert: Watchdog, reason: 'always\n  fires'}\n", name="i.yaml") == {
        "Watchdog": "always fires"
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alert: Watchdog", "i.yaml: is no list"),
        ("- Watchdog", "item 1 names no alert"),
        ("- {alert: Watchdog}", "item 1: 'Watchdog' has no reason"),
        ("- {alert: Watchdog, reason: ' '}", "item 1: 'Watchdog' has no reason"),
        ("- {alert: Watchdog, reason: x, until: y}", "'until' is unknown"),
        ("- {alert: A, reason: x}\n- {alert: a, reason: y}", "item 2: 'a' is there twice"),
        ("- [", "i.yaml: line "),
    ],
)
def test_a_broken_list_of_ignored_alerts_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ignored_in_text(text, name="i.yaml")
    assert said in str(refused.value)


def test_long_lists_are_sent_in_parts_that_fit_and_lose_nothing() -> None:
    alerts = [Alert(name=f"A{number}", summary="ü" * 300) for number in range(250)]
    parts = list(portions(alerts))
    assert [each for part in parts for each in part] == alerts
    assert max(map(len, parts)) <= AT_ONCE
    assert all(sum(len(str(each.as_json())) for each in part) < 64 * 1024 for part in parts)


@pytest.mark.parametrize(
    ("annotation", "summary"),
    [
        ("{{ $labels.pod }} in {{ $labels.namespace }} fails", "in fails"),
        ("a {{ b", "a {{ b"),
        ("a }} b", "a }} b"),
    ],
)
def test_what_prometheus_fills_in_is_left_out(annotation: str, summary: str) -> None:
    rules = {"groups": [{"name": "a", "rules": [{"alert": "A", "expr": "1", "annotations": {"summary": annotation}}]}]}
    (alert,) = alerts_in_text(json.dumps(rules), name="rules").alerts
    assert alert.summary == summary


def test_braces_without_an_end_are_text() -> None:
    rules = f"groups: [{{name: a, rules: [{{alert: A, expr: '1', annotations: {{summary: '{'{' * 60_000}'}}}}]}}]"
    (alert,) = alerts_in_text(rules, name="rules").alerts
    assert set(alert.summary) == {"{", " "}


def test_what_is_ignored_is_read_from_a_file_as_manifests_are(tmp_path: Path) -> None:
    file = tmp_path / "ignore.yaml"
    file.write_bytes(b"\xef\xbb\xbf- {alert: Watchdog,\r\n   reason: always fires}\r\n")
    assert ignored_in_file(file) == {"Watchdog": "always fires"}

    file.write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="is not UTF-8 text"):
        ignored_in_file(file)
    with pytest.raises(InvalidInput, match=r"absent\.yaml: cannot be read: No such file"):
        ignored_in_file(tmp_path / "absent.yaml")
