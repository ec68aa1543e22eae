"""What the gate says of runs and of actions, case by case."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from formulary_catalog.domain.governance.actions import ProposedAction, gate_actions
from formulary_catalog.domain.governance.commands import dangers, destructive_steps
from formulary_catalog.domain.governance.gate import GateDecision, GateReport, Severity, is_production_like
from formulary_catalog.domain.governance.run_risks import gate_run
from formulary_catalog.domain.workflows.manifest import Step
from support.governing import HARMLESS, action


def run_risks(**changed: Any) -> set[tuple[str, str]]:
    report = gate_run(replace(HARMLESS, **changed))
    return {(risk.severity.value, risk.category) for risk in report.risks}


def judged(*actions: ProposedAction, task: str = "heal it", context: Mapping[str, Any] | None = None) -> GateReport:
    return gate_actions(task, context=context or {}, actions=actions)


def test_a_harmless_run_has_no_risks() -> None:
    assert gate_run(HARMLESS) == GateReport(decision=GateDecision.ALLOW)


@pytest.mark.parametrize(
    ("changed", "risk"),
    [
        ({"allowed_here": False}, ("critical", "labels")),
        ({"bundled": True}, ("high", "bundle")),
        ({"templated": True}, ("high", "template")),
        ({"caller_may_target": False}, ("critical", "target")),
        ({"environment": "Production"}, ("medium", "environment")),
        ({"environment": ""}, ("medium", "environment")),
        ({"priority": "P0"}, ("medium", "priority")),
        ({"foreign": True}, ("high", "foreign")),
        ({"risk_level": "high"}, ("high", "workflow-risk")),
        ({"risk_level": "medium"}, ("medium", "workflow-risk")),
        ({"risk_level": ""}, ("medium", "workflow-risk")),
        ({"destructive": ("evict (kubectl drain)",)}, ("medium", "destructive")),
        ({"destructive": ("evict (kubectl drain)",), "has_rollback": False}, ("high", "destructive")),
        ({"has_rollback": False}, ("low", "rollback")),
        ({"has_steps": False}, ("low", "steps")),
        ({"selection_recorded": False}, ("medium", "selection")),
        ({"selection_reasoned": False}, ("low", "selection")),
        ({"selection_confidence": 0.3}, ("medium", "confidence")),
        ({"recent_failures": 1}, ("medium", "repeat-failure")),
        ({"recent_failures": 2}, ("high", "repeat-failure")),
        ({"timeout_seconds": 30.0, "estimated_seconds": 600.0}, ("low", "timeout")),
    ],
)
def test_each_fact_that_speaks_against_a_run_is_a_risk(changed: dict[str, Any], risk: tuple[str, str]) -> None:
    assert run_risks(**changed) == {risk}


def test_risks_come_worst_first_and_the_worst_decides() -> None:
    report = gate_run(replace(HARMLESS, risk_level="high", has_rollback=False, priority="p0"))

    assert [risk.severity for risk in report.risks] == [Severity.HIGH, Severity.MEDIUM, Severity.LOW]
    assert report.decision is GateDecision.DEGRADE
    assert gate_run(replace(HARMLESS, environment="")).decision is GateDecision.UNKNOWN
    assert gate_run(replace(HARMLESS, environment="", allowed_here=False)).decision is GateDecision.BLOCK


@pytest.mark.parametrize(
    ("text", "means_production"),
    [
        ("production", True),
        ("PROD", True),
        ("prod-eu-1", True),
        ("eu_prd", True),
        ("prod1", True),
        ("ProdEU", True),
        ("euPRD02", True),
        ("live", True),
        ("preprod", False),
        ("staging", False),
        ("liveness", False),
        ("", False),
    ],
)
def test_words_that_mean_production(text: str, means_production: bool) -> None:
    assert is_production_like(text) is means_production


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("kubectl -n shop delete deployment web", "kubectl delete"),
        ("kubectl delete pod,deployment web", "kubectl delete"),
        ("kubectl -n shop delete pods --all", "kubectl delete --all"),
        ("kubectl delete pod web-1 --force --grace-period=0", "kubectl --force"),
        ('kubectl -n "${NAMESPACE}" replace --force -f claim.yaml', "kubectl --force"),
        ("kubectl drain \\\n  worker-3 --ignore-daemonsets", "kubectl drain"),
        ("kubectl cordon worker-3", "kubectl cordon"),
        ("kubectl scale deploy/web --replicas=0", "kubectl scale to zero"),
        ("kubectl scale deploy/web --replicas 0", "kubectl scale to zero"),
        ("helm -n shop uninstall web", "helm uninstall"),
        ("terraform -chdir=x destroy -auto-approve", "terraform destroy"),
        ("etcdctl --endpoints=a snapshot restore b.db", "etcdctl restore or delete"),
        ("sudo rm -rf /var/lib/x", "rm -r"),
        ("rm -fr /", "rm -r of a root"),
        ("find /data -mtime +7 -delete", "find -delete"),
        ("dd if=/dev/zero of=/dev/sda", "dd"),
        ("mkfs.ext4 /dev/sdb", "mkfs or wipefs"),
        ("sync; reboot", "shutdown"),
        ("kill -9 1", "kill -9"),
        ("psql -c 'DROP TABLE orders'", "SQL DROP or TRUNCATE"),
        ("psql -c 'delete from orders;'", "SQL DELETE of all rows"),
        ("redis-cli FLUSHALL", "FLUSHALL"),
        ("aws ec2 terminate-instances --instance-ids i-1", "cloud delete"),
        ("docker system prune -af", "image prune"),
    ],
)
def test_the_table_knows_commands_that_destroy_or_interrupt(command: str, name: str) -> None:
    assert name in [danger.name for danger in dangers(command)]


@pytest.mark.parametrize(
    "command",
    [
        "kubectl -n shop get pods",
        "kubectl delete pod web-1",
        "kubectl -n shop delete pods -l app=web",
        "kubectl delete pod/web-1 --all-namespaces",
        "kubectl uncordon worker-3",
        "kubectl scale deploy/web --replicas=10",
        "kubectl apply --server-side --force-conflicts -f x.yaml",
        "kubectl taint nodes worker-3 key:NoExecute-",
        "rm new.yaml",
        "kubectl run probe --rm -it --restart=Never --image=busybox -- nslookup kubernetes",
        "grep format log; echo reboot needed",
        "psql -c 'delete from orders where id = 7'",
    ],
)
def test_the_table_leaves_ordinary_commands_alone(command: str) -> None:
    assert dangers(command) == []


def test_destructive_steps_are_named_with_what_was_found() -> None:
    steps = [Step(name="look", command="kubectl get nodes"), Step(name="evict", command="kubectl drain worker-3")]

    assert destructive_steps(steps) == ("evict (kubectl drain)",)


def test_a_long_command_does_not_slow_the_table_down() -> None:
    started = datetime.now(UTC)
    dangers("rm kubectl helm find dd aws etcdctl " * 2000)

    assert (datetime.now(UTC) - started).total_seconds() < 5


@pytest.mark.parametrize("verb", ["get_pods", "listNodes", "kubectl.describe", "read-file", "SearchLogs"])
def test_reading_is_allowed_even_in_production(verb: str) -> None:
    assert judged(action(verb, "pods"), context={"environment": "production"}).decision is GateDecision.ALLOW


@pytest.mark.parametrize(
    ("proposed", "context", "decision"),
    [
        (action("restart_pod", "web-1"), {}, GateDecision.ALLOW),
        (action("restart_pod", "web-1"), {"environment": "production"}, GateDecision.DEGRADE),
        (action("delete_pod", "web-1"), {}, GateDecision.DEGRADE),
        (action("delete_pod", "web-1"), {"tags": [{"production": True}]}, GateDecision.BLOCK),
        (action("delete_pod", "prod/web-1"), {}, GateDecision.BLOCK),
        (action("shell", "rm -rf /"), {}, GateDecision.BLOCK),
        (action("read_file", "x; kubectl drain worker-3"), {}, GateDecision.DEGRADE),
        (action("frobnicate", "web-1"), {}, GateDecision.UNKNOWN),
    ],
)
def test_actions_that_are_not_ours_are_judged_by_their_words(
    proposed: ProposedAction, context: dict[str, Any], decision: GateDecision
) -> None:
    assert judged(proposed, context=context).decision is decision


def test_one_action_about_which_nothing_is_known_makes_the_whole_unknown() -> None:
    assert judged(action("get_pods"), action("frobnicate")).decision is GateDecision.UNKNOWN
    assert judged(action("frobnicate"), action("shell", "mkfs /dev/sda")).decision is GateDecision.BLOCK


def test_a_task_without_actions_is_not_judged() -> None:
    assert judged().decision is GateDecision.UNKNOWN


def test_the_task_tells_of_production_too() -> None:
    assert judged(action("delete_pod"), task="Heal production").decision is GateDecision.BLOCK
