"""The risks of a run, rated from the facts that there are, and why it needs an approval by default.

`domain.governance.decision` calls it, at the request and again at the start; rules are its business. A fact that is
missing counts as a risk: what is not known is never taken for harmless. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from formulary_catalog.domain.governance.contract import ApprovalReason
from formulary_catalog.domain.governance.gate import (
    GateReport,
    Risk,
    RunFacts,
    Severity,
    gate_report,
    is_harmless,
    said_of_environment,
)
from formulary_catalog.domain.workflows.labels import fold
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS

_URGENT = frozenset({"p0", "critical"})
_SURE = 0.5
_REPEATED = 2
FROZEN_WINDOW = "frozen-window"
"""The category of the one risk whose message names rules."""
SUPERVISED = "execution-mode"
"""The category of the one reason that no rule lifts."""
_SAID_APART = frozenset({"workflow-risk", "environment"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultReason:
    """Why a run needs an approval by default. `category` is that of a risk, or an `ApprovalReason`."""

    category: str
    message: str


def gate_run(
    facts: RunFacts, *, freezes: Iterable[str] = (), harmless: frozenset[str] = HARMLESS_ENVIRONMENTS
) -> GateReport:
    """The risks of a run. `freezes` describes each rule for a time that restricts it now; `harmless` names the
    environments that do not count as production."""
    risks = [
        *_of_place(facts, harmless=harmless),
        *_of_workflow(facts),
        *_of_choice(facts),
        *_of_history(facts),
        *(_risk(Severity.HIGH, FROZEN_WINDOW, f"the run falls into a restricted time: {freeze}") for freeze in freezes),
    ]
    return gate_report(risks, unknown=not (facts.environment.strip() and facts.risk_level.strip()))


def default_reasons(facts: RunFacts, gate: GateReport, *, harmless: frozenset[str]) -> tuple[DefaultReason, ...]:
    """Why a run needs an approval by default, `gate` being its risks; empty where it is harmless."""
    level, environment = fold(facts.risk_level), facts.environment
    found = [
        (facts.supervised, SUPERVISED, "execution.mode is approve"),
        (facts.unproven, ApprovalReason.UNPROVEN, "the requester is unproven"),
        (
            facts.unauthored,
            ApprovalReason.UNAUTHORED,
            "the admission webhook did not see who wrote the workflow",
        ),
        (level != "low", "workflow-risk", f"the workflow's risk level is {facts.risk_level.strip() or 'not known'}"),
        (
            not environment.strip() or not is_harmless(environment, harmless=harmless),
            "environment",
            said_of_environment(environment) if environment.strip() else "the environment is not known",
        ),
        *(
            (risk.severity.is_grave and risk.category not in _SAID_APART, risk.category, risk.message)
            for risk in gate.risks
        ),
    ]
    return tuple(DefaultReason(category=category, message=message) for holds, category, message in found if holds)


def _of_place(facts: RunFacts, *, harmless: frozenset[str]) -> Iterable[Risk]:
    if not facts.allowed_here:
        yield _risk(Severity.CRITICAL, "labels", "the labels of the incident do not allow this workflow")
    if not facts.caller_may_target:
        where = facts.target_namespace or facts.namespace
        yield _risk(
            Severity.CRITICAL,
            "target",
            f"{facts.caller or 'the caller'} may not run workflows in namespace {where}, where the target is",
        )
    if not facts.environment.strip():
        yield _risk(Severity.MEDIUM, "environment", "the environment is not known, so it may be production")
    elif not is_harmless(facts.environment, harmless=harmless):
        yield _risk(Severity.MEDIUM, "environment", said_of_environment(facts.environment))
    if fold(facts.priority) in _URGENT:
        yield _risk(Severity.MEDIUM, "priority", f"the incident has priority {facts.priority}")


def _of_workflow(facts: RunFacts) -> Iterable[Risk]:
    if facts.foreign:
        yield _risk(
            Severity.HIGH,
            "foreign",
            f"the workflow belongs to namespace {facts.workflow_namespace} and would run in {facts.namespace}, with "
            "the Secrets and ServiceAccounts of that",
        )
    if facts.bundled:
        yield _risk(
            Severity.HIGH,
            "bundle",
            "the Tekton bundle or Pipeline brings pods and a security context of its own, which cannot be seen here",
        )
    if facts.templated:
        yield _risk(
            Severity.HIGH,
            "template",
            "Argo takes the ServiceAccount and the security context from the WorkflowTemplate, which is not seen here",
        )
    level = fold(facts.risk_level)
    if not level:
        yield _risk(Severity.MEDIUM, "workflow-risk", "the workflow declares no risk level")
    elif level != "low":
        severity = Severity.HIGH if level == "high" else Severity.MEDIUM
        yield _risk(severity, "workflow-risk", f"the workflow declares the risk level {facts.risk_level}")
    if facts.destructive:
        severity = Severity.MEDIUM if facts.has_rollback else Severity.HIGH
        remedy = "rollback steps are there" if facts.has_rollback else "there are no rollback steps"
        yield _risk(severity, "destructive", f"{', '.join(facts.destructive)} may destroy or interrupt; {remedy}")
    elif not facts.has_rollback:
        yield _risk(Severity.LOW, "rollback", "the workflow has no rollback steps")
    if not facts.has_steps:
        yield _risk(Severity.LOW, "steps", "the workflow lists no steps, so they cannot be judged")


def _of_choice(facts: RunFacts) -> Iterable[Risk]:
    if not facts.selection_recorded:
        yield _risk(Severity.MEDIUM, "selection", "no selection of this workflow was recorded for this trace")
    elif not facts.selection_reasoned:
        yield _risk(Severity.LOW, "selection", "the recorded selection gives no reasoning")
    if facts.selection_confidence is not None and facts.selection_confidence < _SURE:
        yield _risk(
            Severity.MEDIUM, "confidence", f"the selection was made with a confidence of {facts.selection_confidence:g}"
        )


def _of_history(facts: RunFacts) -> Iterable[Risk]:
    if facts.recent_failures:
        severity = Severity.HIGH if facts.recent_failures >= _REPEATED else Severity.MEDIUM
        times = "once" if facts.recent_failures == 1 else f"{facts.recent_failures} times"
        yield _risk(severity, "repeat-failure", f"this workflow failed {times} on this target within 24 hours")
    if facts.estimated_seconds and 0 < facts.timeout_seconds < facts.estimated_seconds:
        yield _risk(
            Severity.LOW,
            "timeout",
            f"the timeout of {facts.timeout_seconds:g} s is shorter than a run takes: {facts.estimated_seconds:g} s",
        )


def _risk(severity: Severity, category: str, message: str) -> Risk:
    return Risk(severity=severity, category=category, message=message)
