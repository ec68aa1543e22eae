"""What a decision turned on, in a form that is stored with it, so that other rules can make it again.

`store/runs/decisions` keeps it in the transaction of the decision. Contracts are not part of it: they are what changes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.governance.decision import Approval, ApprovalDecision
from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.runs.admission_decision import Selection, Situation

FORMAT = 1


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
