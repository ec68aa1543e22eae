"""From a request for a run and what is known now to the state of the run: the rules applied.

`store/runs/submission` and `lifecycle` call it in their transactions, at the request and again at the start.
What a decision turned on is stored with it by `store/runs/decisions`, so that other rules can make it again. Contracts
are not part of that: they are what changes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.governance.contract import Contract
from formulary_catalog.domain.governance.decision import (
    Approval,
    ApprovalDecision,
    DecisionOutcome,
    RunDecision,
    RunEvidence,
    decide,
)
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
FORMAT = 1


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


class BasisUnreadable(ValueError):
    """A stored basis that this release cannot decide from; the message says what is wrong, without its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionBasis:
    """The facts of a run and the situation at a decision on it; `situation` holds no contracts, and no halts of any."""

    facts: Mapping[str, Any]
    situation: Situation

    def as_json(self) -> dict[str, Any]:
        """The basis as it is stored."""
        situation = self.situation
        selection = situation.selection
        return {
            "format": FORMAT,
            "facts": dict(self.facts),
            "now": situation.now.astimezone(UTC).isoformat(),
            "selection": asdict(selection) if selection is not None else None,
            "recent_failures": situation.recent_failures,
            "approvals": [_recorded(approval) for approval in situation.approvals],
            "approved_other_content": situation.approved_other_content,
            "halts": [_recorded(halt) for halt in situation.halts if not halt.contract],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "DecisionBasis":
        """The basis that `as_json` wrote.

        Raises:
            BasisUnreadable: another release wrote it in another form, or facts are missing.
        """
        if stored.get("format") != FORMAT:
            raise BasisUnreadable("it was recorded in the form of another release")
        try:
            RunFacts.from_json(stored["facts"])
            selection = stored["selection"]
            situation = Situation(
                contracts=(),
                approvals=tuple(_approval_of(approval) for approval in stored["approvals"]),
                selection=None if selection is None else Selection(**selection),
                recent_failures=stored["recent_failures"],
                now=datetime.fromisoformat(stored["now"]),
                approved_other_content=stored["approved_other_content"],
                halts=tuple(Halt(**{**halt, "at": datetime.fromisoformat(halt["at"])}) for halt in stored["halts"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError):
            raise BasisUnreadable("facts are missing") from None
        return cls(facts=stored["facts"], situation=situation)


def _recorded(said: Approval | Halt) -> dict[str, Any]:
    return {**asdict(said), "at": said.at.astimezone(UTC).isoformat() if said.at is not None else None}


def _approval_of(stored: Mapping[str, Any]) -> Approval:
    at = stored["at"]
    return Approval(
        decision=ApprovalDecision(stored["decision"]),
        approver=stored["approver"],
        reason=stored["reason"],
        at=datetime.fromisoformat(at) if at is not None else None,
    )
