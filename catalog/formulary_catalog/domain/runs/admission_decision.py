"""From a request for a run and what is known now to the state of the run: the rules applied.

`store/runs/submission` and `lifecycle` call it in their transactions, at the request and again at the start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from formulary_catalog.domain.governance.contract import Contract
from formulary_catalog.domain.governance.decision import Approval, DecisionOutcome, RunDecision, RunEvidence, decide
from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.runs.run import Invocation, Phase, Reason
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS

APPROVAL_HOURS = 24
"""A run that nobody has approved by then is over."""
REPEAT_HOURS = 24
"""Failures of the same workflow on the same target count for so long."""

_DRY_RUN_ONLY = "A dry run needs no approval. A real run would meet:"
_OTHER_CONTENT = "An approval of other content than would run now does not count."
_STAYS_DRY = "Accepted as a dry run, and stays one; ask again for a run by the current rules."


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of the workflow version that is in the trail of the incident."""

    reasoned: bool
    confidence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decision depends on in addition to the request: read in the transaction that acts on it."""

    contracts: tuple[Contract, ...]
    approvals: tuple[Approval, ...]
    selection: Selection | None
    recent_failures: int
    now: datetime
    approved_other_content: bool = False
    """Whether somebody approved what would have run before, which counts no more."""
    halts: tuple[Halt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Where a run stands after a decision."""

    phase: Phase
    reason: Reason
    degraded: bool
    decision: RunDecision


def judge(
    facts: Mapping[str, Any], situation: Situation, *, harmless: frozenset[str] = HARMLESS_ENVIRONMENTS
) -> RunDecision:
    """The decision on a run; `facts` as `NewInvocation.facts` has them, `harmless` environments as `decide`."""
    selection = situation.selection
    complete = replace(
        RunFacts.from_json(facts),
        selection_recorded=selection is not None,
        selection_reasoned=selection is not None and selection.reasoned,
        selection_confidence=selection.confidence if selection is not None else None,
        recent_failures=situation.recent_failures,
    )
    evidence = RunEvidence(
        selection_reasoned=selection is not None and selection.reasoned, approvals=situation.approvals
    )
    decision = decide(
        facts=complete,
        contracts=situation.contracts,
        evidence=evidence,
        now=situation.now,
        harmless=harmless,
        halts=situation.halts,
    )
    if decision.outcome is DecisionOutcome.AWAIT and situation.approved_other_content:
        decision = replace(decision, message=f"{decision.message} {_OTHER_CONTENT}")
    return decision


def run_state(decision: RunDecision, *, dry_run: bool, starting: bool, degraded: bool = False) -> RunState:
    """Where the decision leaves the run. `starting`: it is about to begin, not only accepted.

    A dry run changes nothing, so it waits for nobody; what is forbidden is forbidden to it as well. A run that was
    `degraded` when it was asked for was answered as a dry run: it stays one, also where the rules have changed since.
    """
    phase, reason = (Phase.RUNNING, Reason.STARTED) if starting else (Phase.PENDING, Reason.ACCEPTED)
    if decision.outcome is DecisionOutcome.HALT:
        phase, reason = Phase.HALTED, Reason.HALTED
    elif decision.outcome is DecisionOutcome.BLOCK:
        phase, reason = Phase.FAILED, Reason.REJECTED if decision.rejected else Reason.DENIED
    elif decision.outcome is DecisionOutcome.AWAIT and not (dry_run or degraded):
        phase, reason = Phase.AWAITING_APPROVAL, Reason.AWAITING_APPROVAL
    elif decision.outcome is DecisionOutcome.AWAIT and not degraded:
        decision = replace(decision, message=f"{_DRY_RUN_ONLY} {decision.message}")
    if degraded and decision.outcome in (DecisionOutcome.ALLOW, DecisionOutcome.AWAIT):
        decision = replace(decision, message=f"{_STAYS_DRY} {decision.message}")
    return RunState(
        phase=phase, reason=reason, degraded=degraded or decision.outcome is DecisionOutcome.DEGRADE, decision=decision
    )


def overdue(run: Invocation, *, now: datetime) -> str:
    """Why a run that has not begun is too old to begin; empty if it is not."""
    age = (now - run.created_at).total_seconds()
    if run.phase is Phase.AWAITING_APPROVAL and age > APPROVAL_HOURS * 3600:
        return f"no approval within {APPROVAL_HOURS} hours; ask for another run if it is still needed"
    if run.phase is Phase.PENDING and age > run.timeout_seconds:
        return (
            f"it was not begun within its timeout of {run.timeout_seconds:g} s, nothing was run; ask for another run "
            "if it is still needed"
        )
    return ""
