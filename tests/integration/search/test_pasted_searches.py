"""What people paste is answered for the problems that it reports, and believed as far as it names a cause."""

import json

import pytest

from support.served import PAYMENTS, Served, noted


async def test_a_notification_of_several_alerts_is_answered_for_each_that_fires(served: Served) -> None:
    alerts = [
        {"status": "firing", "labels": {"alertname": "KubePodCrashLooping", "severity": "warning"}},
        {"status": "firing", "labels": {"alertname": "KubePersistentVolumeFillingUp", "severity": "critical"}},
        {"status": "firing", "labels": {"alertname": "Watchdog", "severity": "none"}},
        {"status": "resolved", "labels": {"alertname": "KubeJobFailed", "severity": "warning"}},
    ]
    answer = await served.ask(json.dumps({"alerts": alerts}))
    answers = {hit.workflow_id: hit.match_reasons[0] for hit in answer.workflows}
    assert answers["pvc-full-expand"] == "answers KubePersistentVolumeFillingUp"
    assert answers["crashloop-debug-hold"] == "answers KubePodCrashLooping"
    assert "answers KubeJobFailed" not in answers.values()
    (note,) = noted(answer.notes, "2 problems fire")
    assert "KubePodCrashLooping (warning), KubePersistentVolumeFillingUp (critical)" in note
    confidences = [hit.confidence for hit in answer.workflows]
    assert confidences == sorted(confidences, reverse=True)


async def test_an_alert_that_nothing_answers_is_named_among_others(served: Served) -> None:
    alerts = [
        {"status": "firing", "labels": {"alertname": "KubePersistentVolumeFillingUp", "severity": "critical"}},
        {"status": "firing", "labels": {"alertname": "VendorInvoiceUnpaid", "severity": "info"}},
    ]
    answer = await served.ask(json.dumps({"alerts": alerts}))
    (note,) = noted(answer.notes, "2 problems fire")
    assert note.endswith("nothing here is likely for VendorInvoiceUnpaid")


@pytest.mark.parametrize("incident", ["", PAYMENTS])
@pytest.mark.parametrize(
    "query",
    [
        "CrashLoopBackOff high",
        "CrashLoopBackOff high payments-api-7f9c8d-abcde in namespace shop",
        "KubePodNotReady",
        "HighRequestErrorRate critical",
        "OOMKilled critical payments",
        "node not ready",
        "connection refused",
        'KubePodCrashLooping warning Pod shop/web-7f9c8d (web) is in waiting state (reason: "CrashLoopBackOff").',
    ],
)
async def test_a_symptom_without_a_cause_makes_nobody_sure_of_one_of_its_remedies(
    served: Served, query: str, incident: str
) -> None:
    answer = await served.ask(query, incident=incident)
    assert answer.workflows[0].confidence <= 0.6


async def test_a_note_says_what_would_tell_those_apart_that_answer_one_symptom(served: Served) -> None:
    answer = await served.ask("OOMKilled critical")
    assert {hit.confidence for hit in answer.workflows[:3]} == {0.6}
    (note,) = noted(answer.notes, "fit about equally; to choose, check when_not_to_use")
    assert all(hit.workflow_id in note for hit in answer.workflows[:3])


async def test_a_cause_beside_the_symptom_that_follows_from_it_is_what_counts(served: Served) -> None:
    answer = await served.ask("CrashLoopBackOff high OOMKilled exit code 137")
    assert "oom" in answer.workflows[0].workflow_id
    assert answer.workflows[0].confidence > 0.6
    assert answer.inferred == {"signal_type": "CrashLoopBackOff", "severity": "high"}


async def test_a_cause_that_is_denied_is_none(served: Served) -> None:
    answer = await served.ask("CrashLoopBackOff high not OOMKilled")
    assert answer.workflows[0].workflow_id.startswith("crashloop-")


async def test_the_most_severe_of_many_alerts_are_searched_and_the_others_are_named(served: Served) -> None:
    names = [
        "KubeJobFailed",
        "KubePodCrashLooping",
        "KubeHpaMaxedOut",
        "KubeQuotaExceeded",
        "KubePdbNotEnoughHealthyPods",
    ]
    alerts = [{"status": "firing", "labels": {"alertname": name, "severity": "warning"}} for name in names]
    alerts.append({"status": "firing", "labels": {"alertname": "KubeNodeNotReady", "severity": "critical"}})
    answer = await served.ask(json.dumps({"alerts": alerts}), top_k=4)
    (note,) = noted(answer.notes, "6 problems fire")
    assert "KubeNodeNotReady (critical)" in note
    assert "not searched: KubeQuotaExceeded, KubePdbNotEnoughHealthyPods; ask again for them" in note
    assert "answers KubeNodeNotReady" in {hit.match_reasons[0] for hit in answer.workflows}


async def test_a_severity_that_a_workflow_declares_otherwise_counts_against_it(served: Served) -> None:
    """oom-restart-leaking-process declares no critical."""
    first = {
        severity: (await served.ask(f"OOMKilled {severity}")).workflows[0].workflow_id
        for severity in ("critical", "low")
    }
    assert first == {"critical": "oom-raise-memory-limit", "low": "oom-restart-leaking-process"}
