"""Notifications as the default templates of their receivers write them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SCRAPED = {
    "container": "kube-state-metrics",
    "endpoint": "http",
    "instance": "10.244.3.17:8080",
    "job": "kube-state-metrics",
    "namespace": "shop",
    "pod": "kube-state-metrics-6f9d7c5b8-2xk4q",
    "prometheus": "monitoring/k8s",
    "service": "prometheus-kube-state-metrics",
    "uid": "0f6c3a52-77aa-4a0e-9d0c-3c1f5a9b2e10",
}
"""Labels that kube-state-metrics and Prometheus put on alerts."""
STARTS = "2026-03-03T10:00:00Z"
GRAPH = "http://prometheus.example.com/graph?g0.expr=x"


@dataclass(frozen=True)
class Alert:
    """An alert of a notification."""

    name: str
    severity: str
    summary: str
    resolved: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return "resolved" if self.resolved else "firing"

    @property
    def labels(self) -> dict[str, str]:
        labels = {"alertname": self.name, "severity": self.severity, **SCRAPED, **self.extra}
        return dict(sorted(labels.items()))

    @property
    def annotations(self) -> dict[str, str]:
        return {"runbook_url": f"https://runbooks.example.com/{self.name.casefold()}", "summary": self.summary}


Alerts = Sequence[Alert]
Form = Callable[[Alerts], str]


def title(alerts: Alerts, *groups: str) -> str:
    """`__subject` of the templates: values of the labels of the group, then of those that all alerts share."""
    firing = sum(not each.resolved for each in alerts)
    common = dict(set.intersection(*(set(each.labels.items()) for each in alerts)))
    of_group = [common[group] for group in groups if group in common]
    rest = [value for label, value in sorted(common.items()) if label not in groups]
    return f"[{f'FIRING:{firing}' if firing else 'RESOLVED'}] {' '.join(of_group)} ({' '.join(rest)})"


def by_alert(alerts: Alerts) -> str:
    return title(alerts, "alertname")


def by_namespace(alerts: Alerts) -> str:
    return title(alerts, "namespace")


def text_list(alerts: Alerts) -> str:
    return "".join(
        "Labels:\n"
        + "".join(f" - {name} = {value}\n" for name, value in each.labels.items())
        + "Annotations:\n"
        + "".join(f" - {name} = {value}\n" for name, value in each.annotations.items())
        + f"Source: {GRAPH}\n"
        for each in alerts
    )


def _by_state(alerts: Alerts, heading: str, of: Callable[[Alerts], str]) -> str:
    parts = {
        "Firing": [each for each in alerts if not each.resolved],
        "Resolved": [each for each in alerts if each.resolved],
    }
    return "\n".join(heading.format(state) + "\n" + of(each) for state, each in parts.items() if each)


def opsgenie(alerts: Alerts) -> str:
    return f"{by_namespace(alerts)}\n{_by_state(alerts, 'Alerts {}:', text_list)}"


def telegram(alerts: Alerts) -> str:
    return _by_state(alerts, "\nAlerts {}:", text_list)


def discord(alerts: Alerts) -> str:
    return f"**{by_namespace(alerts)}**\n{telegram(alerts)}"


def teams(alerts: Alerts) -> str:
    listed = _by_state(alerts, "# Alerts {}:\n", text_list).replace("\n - ", "\n  - ")
    return f"{by_namespace(alerts)}\n\n{listed}"


def grafana(alerts: Alerts) -> str:
    def listed(alerts: Alerts) -> str:
        return "".join(
            f"\nValue: B=22, C=1\n{text_list([each])}Silence: https://grafana.example.com/alerting/silence/new\n"
            for each in alerts
        )

    return f"{by_namespace(alerts)}\n{_by_state(alerts, '**{}**', listed)}"


def email(alerts: Alerts) -> str:
    def listed(alerts: Alerts) -> str:
        return "".join(
            '<tr style="margin: 0;">\n  <td class="content-block" style="padding: 0 0 20px;">\n'
            '    <strong style="margin: 0;">Labels</strong><br style="margin: 0;" />\n    '
            + "".join(f'{name} = {value}<br style="margin: 0;" />' for name, value in each.labels.items())
            + '\n    <strong style="margin: 0;">Annotations</strong><br />\n    '
            + "".join(f"{name} = {value}<br />" for name, value in each.annotations.items())
            + f'\n    <a href="{GRAPH}">Source</a><br />\n  </td>\n</tr>\n'
            for each in alerts
        )

    heads = f"<tr>\n <td>\n  <strong>[{len(alerts)}] {{}}</strong>\n </td>\n</tr>"
    return (
        "<html>\n<head>\n<title>an alert</title>\n<style>td { margin: 0 }</style>\n</head>\n<body>\n<table>\n"
        f"<tr>\n<td>\n  {len(alerts)} alerts for namespace=shop\n</td>\n</tr>\n<tr><td><table>\n"
        f'<tr><td><a href="http://am.example.com">View in Alertmanager</a></td></tr>\n'
        f"{_by_state(alerts, heads, listed)}</table></td></tr>\n</table>\n</body>\n</html>"
    )


def github(alerts: Alerts) -> str:
    """alertmanager-to-github makes an issue of each group, here by alert."""
    (alert,) = alerts
    rows = {
        "Labels": "".join(
            f"\n<tr>\n<th>{name}</th>\n<td>{value}</td>\n</tr>\n" for name, value in alert.labels.items()
        ),
        "Annotations": "".join(
            f"\n<tr>\n<th>{name}</th>\n<td>{value}</td>\n</tr>\n" for name, value in alert.annotations.items()
        ),
    }
    tables = "".join(f"## Common {each}\n\n<table>\n{of}\n</table>\n\n" for each, of in rows.items())
    return (
        f"(Updated at {STARTS})\n\n{tables}## Alerts\n\n<table>\n<tr>\n    "
        "<th>StartsAt</th>\n    <th>Links</th>\n</tr>\n"
        f'<tr>\n    <td>{STARTS}</td>\n    <td><a href="{GRAPH}">GeneratorURL</a></td>\n</tr>\n</table>\n\n'
        f"<!-- alert data: {webhook(alerts)} -->"
    )


def webhook(alerts: Alerts) -> str:
    return json.dumps(
        {
            "receiver": "agents",
            "status": "firing" if any(not each.resolved for each in alerts) else "resolved",
            "alerts": [
                {
                    "status": each.status,
                    "labels": each.labels,
                    "annotations": each.annotations,
                    "startsAt": STARTS,
                    "generatorURL": GRAPH,
                }
                for each in alerts
            ],
            "groupLabels": {"alertname": alerts[0].name},
            "commonLabels": {"alertname": alerts[0].name, "severity": "info"},
            "version": "4",
        }
    )


def indented_webhook(alerts: Alerts) -> str:
    return json.dumps(json.loads(webhook(alerts)), indent=2)


def escaped_webhook(alerts: Alerts) -> str:
    return json.dumps(webhook(alerts))[1:-1]


def pagerduty(alerts: Alerts) -> str:
    """An incident of the Events API: the title, and the lists as details."""
    return json.dumps(
        {
            "summary": by_namespace(alerts),
            "severity": "error",
            "custom_details": {
                "firing": text_list([each for each in alerts if not each.resolved]),
                "num_firing": str(sum(not each.resolved for each in alerts)),
                "num_resolved": str(sum(each.resolved for each in alerts)),
            },
        }
    )


def cells(alerts: Alerts) -> str:
    return "\n\n".join(
        "\n".join(
            f"{name}\t{value}" for name, value in {**each.labels, "status": each.status, **each.annotations}.items()
        )
        for each in alerts
    )


def markdown_pairs(alerts: Alerts) -> str:
    return "\n\n".join(
        "| Label | Value |\n|---|---|\n"
        + "\n".join(
            f"| {name} | {value} |"
            for name, value in {**each.labels, "status": each.status, **each.annotations}.items()
        )
        for each in alerts
    )


def markdown_table(alerts: Alerts) -> str:
    rows = (f"| {each.name} | {each.severity} | shop | {each.status} | {each.summary} |" for each in alerts)
    return "\n".join(["| alertname | severity | namespace | status | summary |", "|:--|:--|---|---|---|", *rows])


def key_values(alerts: Alerts) -> str:
    return "\n\n".join(
        f"Alert: {each.name}\nSeverity: {each.severity}\nStatus: {each.status}\nInstance: 10.1.2.3\n"
        f"Summary: {each.summary}"
        for each in alerts
    )


def slack_bold(alerts: Alerts) -> str:
    return "\n\n".join(
        f"&gt; *Alert:* `{each.name}`\n&gt; *Severity:* {each.severity}\n&gt; *Status:* {each.status}\n"
        f"&gt; *Summary:* {each.summary}"
        for each in alerts
    )


def series(alerts: Alerts) -> str:
    return "\n".join(
        "ALERTS{"
        + ", ".join(f'{name}="{value}"' for name, value in {**each.labels, "alertstate": each.status}.items())
        + "} 1"
        for each in alerts
    )


def amtool(alerts: Alerts) -> str:
    rows = (f"{each.name:<40}  2026-03-03 10:00:00 UTC  {each.summary:<60}  active  " for each in alerts)
    return "\n".join([f"{'Alertname':<40}  {'Starts At':<23}  {'Summary':<60}  State   ", *rows])


def amtool_extended(alerts: Alerts) -> str:
    def labels(of: Mapping[str, str]) -> str:
        return " ".join(f'{name}="{value}"' for name, value in of.items())

    of_time = "2026-03-03 10:00:00 UTC"
    rows = (
        f"{labels(each.labels)}  {labels(each.annotations)}  {of_time}  {of_time}  {GRAPH}  active  " for each in alerts
    )
    return "\n".join(["Labels  Annotations  Starts At  Ends At  Generator URL  State  ", *rows])


ONE_ALERT = (by_alert, by_namespace, github)
"""Forms that hold one name, or that say nothing else of several alerts."""
NAMES_ONLY = (by_alert, by_namespace, series)
"""Forms without annotations."""
FIRING_ONLY = (pagerduty, amtool, amtool_extended)
"""Forms that do not list alerts that are over."""
ANY = (
    opsgenie,
    telegram,
    discord,
    teams,
    grafana,
    email,
    webhook,
    indented_webhook,
    escaped_webhook,
    cells,
    markdown_pairs,
    markdown_table,
    key_values,
    slack_bold,
    series,
)
