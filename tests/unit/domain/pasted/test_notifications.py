"""Notifications in the default form of each receiver: what fires, by name, severity and what is said of it."""

import pytest

from formulary_catalog.domain.pasted.reading import read_pasted
from formulary_catalog.domain.text import words
from support import notifications
from support.notifications import SCRAPED, Alert, Alerts

JOB = Alert("KubeJobFailed", "warning", "Job failed to complete.", extra={"job_name": "nightly-report"})
DISK = Alert("KubePersistentVolumeFillingUp", "critical", "The volume is only 2% free.")
OVER = Alert("KubePodCrashLooping", "info", "Pod is crash looping.", resolved=True)
WATCHDOG = Alert("Watchdog", "none", "This alert always fires.")
INHIBITOR = Alert("InfoInhibitor", "none", "Inhibits other alerts.")
SILENT = {word.casefold() for value in (*SCRAPED.values(), "nightly-report", "runbooks") for word in words(value)}
"""Words of labels that name an object or the exporter."""


def _name(form: object) -> str:
    return str(getattr(form, "__name__", form))


@pytest.mark.parametrize("form", [*notifications.ONE_ALERT, *notifications.FIRING_ONLY, *notifications.ANY], ids=_name)
def test_the_alert_is_named_and_labels_of_scraping_count_nothing(form: notifications.Form) -> None:
    pasted = read_pasted(form([JOB]))
    (problem,) = pasted.problems
    assert (problem.name, pasted.machine, pasted.is_over) == ("KubeJobFailed", True, False)
    if form is not notifications.amtool:  # which has no column for it
        assert problem.severity == "warning"
    if form not in notifications.NAMES_ONLY:
        assert problem.words == "Job failed to complete."
    assert not {word.casefold() for word in words(problem.words)} & SILENT


@pytest.mark.parametrize("form", notifications.ANY, ids=_name)
@pytest.mark.parametrize("alerts", [[OVER, JOB, DISK], [WATCHDOG, JOB, INHIBITOR, DISK, OVER]])
def test_all_that_fire_are_problems_and_those_that_are_over_or_always_fire_are_none(
    form: notifications.Form, alerts: Alerts
) -> None:
    pasted = read_pasted(form(alerts))
    assert [(each.name, each.severity, each.words) for each in pasted.problems] == [
        (each.name, each.severity, "" if form in notifications.NAMES_ONLY else each.summary) for each in (JOB, DISK)
    ]
    assert not pasted.is_over


@pytest.mark.parametrize("form", notifications.FIRING_ONLY, ids=_name)
def test_all_alerts_of_a_list_are_problems(form: notifications.Form) -> None:
    assert [each.name for each in read_pasted(form([WATCHDOG, JOB, DISK])).problems] == [JOB.name, DISK.name]


@pytest.mark.parametrize("form", [notifications.by_alert, notifications.by_namespace, *notifications.ANY], ids=_name)
def test_of_alerts_that_are_all_over_it_is_said_and_they_are_still_the_problem(form: notifications.Form) -> None:
    pasted = read_pasted(form([OVER]))
    assert [each.name for each in pasted.problems] == [OVER.name]
    assert pasted.is_over


@pytest.mark.parametrize("form", notifications.ANY, ids=_name)
def test_one_alert_of_several_objects_is_one_problem(form: notifications.Form) -> None:
    other = Alert(JOB.name, "warning", JOB.summary, extra={"job_name": "other"})
    assert [each.name for each in read_pasted(form([JOB, other])).problems] == [JOB.name]


@pytest.mark.parametrize(
    ("query", "name", "severity", "said"),
    [
        ("[FIRING:1] shop (KubeJobFailed kube-state-metrics warning)", "KubeJobFailed", "warning", ""),
        ("[FIRING:2] KubePodCrashLooping shop (warning)", "KubePodCrashLooping", "warning", ""),
        ("[FIRING:1] KubeJobFailed shop warning", "KubeJobFailed", "warning", ""),
        ("#482: [FIRING:1] [critical] NodeDown", "NodeDown", "critical", ""),
        ("*[FIRING:3, RESOLVED:1] NodeDown (critical)*", "NodeDown", "critical", ""),
        ("[FIRING:7] ContainerOOMKilled 7 of 9 pods within 6m", "ContainerOOMKilled", "", "7 of 9 pods within 6m"),
        ("[FIRING:1] CertExpiry (web/shop-tls warning) it ends soon", "CertExpiry", "warning", "it ends soon"),
        ("severity: high, alertname: NodeDown", "NodeDown", "high", ""),
        ("Alertname: NodeDown, Severity: high, Instance: w1", "NodeDown", "high", ""),
        ("Alert: NodeDown since the upgrade", "NodeDown", "", "since the upgrade"),
        ("alertname=NodeDown severity=critical node=w1 since noon", "NodeDown", "critical", "since noon"),
        ('{"alertname":"kube-api-down","severity":"critical"}', "kube-api-down", "critical", ""),
        (
            "alertname: High error rate\nseverity: page\nsummary: 40 % of requests fail",
            "High error rate",
            "",
            "40 % of requests fail",
        ),
        (
            'alertname="KubeContainerWaiting" reason="CreateContainerConfigError" pod="a"',
            "CreateContainerConfigError",
            "",
            "KubeContainerWaiting",
        ),
    ],
)
def test_titles_and_labels_in_one_line(query: str, name: str, severity: str, said: str) -> None:
    (problem,) = read_pasted(query).problems
    assert (problem.name, problem.severity, problem.words) == (name, severity, said)


def test_a_payload_that_was_cut_off_is_read_line_by_line() -> None:
    text = notifications.indented_webhook([OVER, JOB])
    cut = text[: text.index('"generatorURL"', text.index(JOB.name))]
    assert [each.name for each in read_pasted(cut).problems] == [JOB.name]


def test_the_links_and_the_values_of_a_notification_are_no_words() -> None:
    (problem,) = read_pasted(notifications.grafana([DISK])).problems
    assert problem.words == DISK.summary


@pytest.mark.parametrize(
    "query", ["Warning signs in the cluster", "firing squad", "severity: critical", "the alertname is missing"]
)
def test_words_of_alerts_in_a_sentence_name_none(query: str) -> None:
    pasted = read_pasted(query)
    assert (pasted.problems[0].text, pasted.machine) == (query, False)


@pytest.mark.parametrize(
    ("query", "name", "severity", "said"),
    [
        ("[FIRING:1] High memory usage on pods (shop critical)", "High memory usage on pods", "critical", ""),
        (
            "[FIRING:1] Database connections exhausted (postgres critical)",
            "Database connections exhausted",
            "critical",
            "",
        ),
        ("[FIRING:1] Pod OOM killed (warning)", "Pod OOM killed", "warning", ""),
        ("web is down [FIRING:1] KubePodCrashLooping (warning)", "KubePodCrashLooping", "warning", "web is down"),
        ("shop prod: [FIRING:1] NodeDown (critical)", "NodeDown", "critical", "shop prod"),
        (":fire: Subject: Fwd: [RESOLVED] NodeDown (critical)", "NodeDown", "critical", ""),
    ],
)
def test_the_words_of_and_before_a_title_stay(query: str, name: str, severity: str, said: str) -> None:
    (problem,) = read_pasted(query).problems
    assert (problem.name, problem.severity, problem.words) == (name, severity, said)


def test_a_state_inside_a_sentence_is_no_title() -> None:
    query = "Pods of shop cannot reach the database since noon; the alert was [RESOLVED] an hour ago"
    pasted = read_pasted(query)
    assert (pasted.problems[0].text, pasted.machine, pasted.is_over) == (query, False, False)


def test_the_name_of_an_alert_is_bounded() -> None:
    (problem,) = read_pasted(f"alertname: {'very ' * 400}slow\nseverity: high").problems
    assert len(problem.name) <= 100
