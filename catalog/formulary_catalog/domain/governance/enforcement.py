"""A contract applied to actions of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from formulary_catalog.domain.governance.actions import ProposedAction
from formulary_catalog.domain.governance.contract import Contract, Effect
from formulary_catalog.domain.governance.rules import MatchedRule, Subject, matched_rules

_BLOCKING = frozenset({Effect.HALT, Effect.DENY, Effect.REQUIRE_EVIDENCE})
"""Evidence cannot be shown for an action that is not ours, so what asks for it blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforceResult:
    """What a contract says to actions. Each action counts once, by the strongest rule that matches it."""

    contract_id: str
    decision_summary: Literal["ALLOW", "BLOCK"]
    blocked_rule_ids: tuple[str, ...] = ()
    allowed_count: int = 0
    blocked_count: int = 0
    degraded_count: int = 0

    def as_json(self) -> dict[str, Any]:
        """The result as the wire has it."""
        return {
            "contract_id": self.contract_id,
            "decision_summary": self.decision_summary,
            "blocked_rule_ids": list(self.blocked_rule_ids),
            "allowed_count": self.allowed_count,
            "blocked_count": self.blocked_count,
            "degraded_count": self.degraded_count,
        }


def enforce(contract: Contract, actions: Sequence[ProposedAction], *, caller: str, now: datetime) -> EnforceResult:
    """What the contract says to the actions. One that no rule matches is allowed: the contract does not forbid it."""
    strongest = [_strongest(contract, action, caller=caller, now=now) for action in actions]
    blocked = [rules for rules in strongest if rules and rules[0].effect in _BLOCKING]
    degraded = [rules for rules in strongest if rules and rules[0].effect is Effect.DEGRADE]
    return EnforceResult(
        contract_id=contract.name,
        decision_summary="BLOCK" if blocked else "ALLOW",
        blocked_rule_ids=tuple(sorted({rule.id for rules in blocked for rule in rules})),
        allowed_count=len(actions) - len(blocked) - len(degraded),
        blocked_count=len(blocked),
        degraded_count=len(degraded),
    )


def _strongest(contract: Contract, action: ProposedAction, *, caller: str, now: datetime) -> list[MatchedRule]:
    subject = Subject(action_type=action.action_type, path=action.path_prefix, caller=caller)
    rules = matched_rules([contract], subject, now=now)
    return [rule for rule in rules if rule.effect is rules[0].effect]
