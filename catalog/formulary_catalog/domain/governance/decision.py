"""Whether a run may go ahead: the gate's risks, the rules of contracts and the evidence, weighed in one pure function.

0. A halt stops everything.
1. A critical risk blocks, whatever the rules say.
2. A matching DENY blocks. So does a rejection.
3. A matching DEGRADE makes it a dry run.
4. A matching REQUIRE_APPROVAL asks for an approval, whatever ALLOW rules say.
5. A matching REQUIRE_EVIDENCE asks for a recorded selection with reasoning, or an approval.
6. The safe default asks for an approval, unless the run is harmless: low risk, in an environment that the settings call
   harmless, without a risk of severity high. A matching ALLOW lifts it, but for each `ApprovalReason` that none names.
   Nothing lifts that of `execution.mode: approve`.

A rule that restricts never allows more: the default still holds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from formulary_catalog.domain.governance.contract import ApprovalReason, Contract, Effect
from formulary_catalog.domain.governance.gate import GateReport, RunFacts, Severity
from formulary_catalog.domain.governance.halting import Halt, halted_message
from formulary_catalog.domain.governance.rules import MatchedRule, Subject, matched_rules
from formulary_catalog.domain.governance.run_risks import SUPERVISED, DefaultReason, default_reasons, gate_run
from formulary_catalog.domain.text import one_line
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS

_NAMED_ONLY = frozenset(ApprovalReason)
_APPROVAL = "an approval"
_SELECTION = "a recorded selection of this workflow version with reasoning, or an approval"


class DecisionOutcome(StrEnum):
    """What becomes of a run, the most permissive first."""

    ALLOW = "ALLOW"
    AWAIT = "AWAIT"
    DEGRADE = "DEGRADE"
    BLOCK = "BLOCK"
    HALT = "HALT"

    @property
    def strength(self) -> int:
        """Greater is stricter."""
        return list(DecisionOutcome).index(self)


class ApprovalDecision(StrEnum):
    """What somebody said to a run that waits."""

    APPROVE = "Approve"
    REJECT = "Reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a person said to one run, and who it was."""

    decision: ApprovalDecision
    approver: str
    reason: str = ""
    at: datetime | None = None

    def __str__(self) -> str:
        return f"{self.approver} ({one_line(self.reason)})" if self.reason.strip() else self.approver


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """What speaks for a run. `selection_reasoned`: this version was selected in this trace, with reasoning."""

    selection_reasoned: bool = False
    approvals: tuple[Approval, ...] = ()

    @property
    def approval(self) -> Approval | None:
        """The first approval."""
        return self._first(ApprovalDecision.APPROVE)

    @property
    def rejection(self) -> Approval | None:
        """The first rejection; one is enough."""
        return self._first(ApprovalDecision.REJECT)

    def _first(self, decision: ApprovalDecision) -> Approval | None:
        return next((approval for approval in self.approvals if approval.decision is decision), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision:
    """What becomes of a run and why. `missing` is what would let a waiting run go ahead; `message` is for a person."""

    outcome: DecisionOutcome
    gate: GateReport
    rules: tuple[MatchedRule, ...]
    message: str
    why: list[str]
    missing: list[str] = field(default_factory=list)
    rejected: bool = False
    """Whether a person said no, rather than a rule."""
    reasons: tuple[DefaultReason, ...] = ()
    """Why the run needs an approval by default, also where rules lift it or a person gave one."""

    def as_json(self) -> dict[str, Any]:
        """The decision as it is recorded."""
        return {
            "outcome": self.outcome.value,
            "gate": self.gate.as_json(),
            "rules": [rule.as_json() for rule in self.rules],
            "why": list(self.why),
            "missing": list(self.missing),
            "rejected": self.rejected,
            "message": self.message,
        }


def decide(
    *,
    facts: RunFacts,
    contracts: Sequence[Contract],
    evidence: RunEvidence,
    now: datetime,
    harmless: frozenset[str] = HARMLESS_ENVIRONMENTS,
    halts: Sequence[Halt] = (),
) -> RunDecision:
    """What becomes of a run. `contracts` and `halts` are those that apply to it; `now` knows its time zone; `harmless`
    names the environments that do not count as production."""
    rules = matched_rules(contracts, subject_of(facts), now=now)
    gate = gate_run(
        facts, freezes=[str(rule) for rule in rules if rule.effect.restricts and rule.temporary], harmless=harmless
    )
    considered = _Considered(
        facts=facts,
        gate=gate,
        reasons=default_reasons(facts, gate, harmless=harmless),
        rules=rules,
        evidence=evidence,
        halts=tuple(halts),
    )
    return (
        considered.stop()
        or considered.refusal()
        or considered.degradation()
        or considered.demand()
        or considered.permission()
    )


def subject_of(facts: RunFacts) -> Subject:
    """The run as rules see it."""
    return Subject(
        action_type=facts.action_type,
        path=f"/workflows/{facts.workflow}",
        workflow=facts.workflow,
        namespaces=frozenset({facts.namespace, facts.target_namespace} - {""}),
        environment=facts.environment,
        signal=facts.signal,
        risk_level=facts.risk_level,
        caller=facts.caller,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Considered:
    """All that a decision turns on; each method is one outcome, or None where it is not this one."""

    facts: RunFacts
    gate: GateReport
    reasons: tuple[DefaultReason, ...]
    rules: tuple[MatchedRule, ...]
    evidence: RunEvidence
    halts: tuple[Halt, ...]

    def stop(self) -> RunDecision | None:
        if not self.halts:
            return None
        return self._decision(
            DecisionOutcome.HALT, why=[str(halt) for halt in self.halts], message=halted_message(self.halts)
        )

    def refusal(self) -> RunDecision | None:
        critical = [risk.message for risk in self.gate.risks if risk.severity is Severity.CRITICAL]
        if critical:
            return self._decision(
                DecisionOutcome.BLOCK,
                why=critical,
                message=f"Blocked: {'; '.join(critical)}. No rule and no approval can lift this; choose another "
                "workflow or target.",
            )
        if denying := [*self._by(Effect.HALT), *self._by(Effect.DENY)]:
            return self._decision(
                DecisionOutcome.BLOCK,
                why=_texts(denying),
                message=f"Blocked: {'; '.join(_texts(denying))}. Choose another workflow, or ask the owner of the "
                "contract.",
            )
        if (rejection := self.evidence.rejection) is not None:
            return self._decision(
                DecisionOutcome.BLOCK,
                why=[f"rejected by {rejection}"],
                message=f"Rejected by {rejection}. Choose another workflow, or ask them.",
                rejected=True,
            )
        return None

    def degradation(self) -> RunDecision | None:
        if not (degrading := self._by(Effect.DEGRADE)):
            return None
        return self._decision(
            DecisionOutcome.DEGRADE,
            why=_texts(degrading),
            message=f"Turned into a dry run: {'; '.join(_texts(degrading))}. Read its manifest; to run it for real, "
            "ask the owner of the contract.",
        )

    def demand(self) -> RunDecision | None:
        if self.evidence.approval is not None:
            return None
        reasons = [reason.message for reason in self._unlifted()]
        insisting = self._by(Effect.REQUIRE_APPROVAL)
        unmet = [] if self.evidence.selection_reasoned else self._by(Effect.REQUIRE_EVIDENCE)
        if not (reasons or insisting or unmet):
            return None
        why = [*_texts(insisting), *_texts(unmet)]
        why += [f"by default, because {' and '.join(reasons)}"] if reasons else []
        missing = _APPROVAL if reasons or insisting else _SELECTION
        return self._decision(
            DecisionOutcome.AWAIT,
            why=why,
            missing=[missing],
            message=f"Waits for {missing}: {'; '.join(why)}. "
            + (
                "A person who may approve it decides; to ask again without an approval changes nothing."
                if missing == _APPROVAL
                else "Record the selection with your reasoning and ask again, or ask a person to approve it."
            ),
        )

    def permission(self) -> RunDecision:
        why = [*self._met(), *_texts(self._by(Effect.ALLOW))] or [
            f"by default, because the risk is low and {self.facts.environment} is not production"
        ]
        return self._decision(DecisionOutcome.ALLOW, why=why, message=f"Allowed: {'; '.join(why)}.")

    def _met(self) -> Iterable[str]:
        if (approval := self.evidence.approval) is not None:
            yield f"approved by {approval}"
        elif demanding := self._by(Effect.REQUIRE_EVIDENCE):
            yield f"a selection with reasoning is recorded, as asked for by {'; '.join(_texts(demanding))}"

    def _unlifted(self) -> list[DefaultReason]:
        """The default reasons that no matching ALLOW lifts."""
        allowing = self._by(Effect.ALLOW)
        if not allowing:
            return list(self.reasons)
        named = {reason for rule in allowing for reason in rule.lifts}
        kept = (_NAMED_ONLY | {SUPERVISED}) - named
        return [each for each in self.reasons if each.category in kept]

    def _by(self, effect: Effect) -> list[MatchedRule]:
        return [rule for rule in self.rules if rule.effect is effect]

    def _decision(
        self,
        outcome: DecisionOutcome,
        *,
        why: list[str],
        message: str,
        missing: Sequence[str] = (),
        rejected: bool = False,
    ) -> RunDecision:
        return RunDecision(
            outcome=outcome,
            gate=self.gate,
            rules=self.rules,
            why=why,
            missing=list(missing),
            message=message,
            rejected=rejected,
            reasons=self.reasons,
        )


def _texts(rules: Iterable[MatchedRule]) -> list[str]:
    return [str(rule) for rule in rules]
