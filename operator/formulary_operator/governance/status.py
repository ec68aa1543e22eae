"""GovernanceContract objects: how their status says whether their rules are in force.

`governance.reconciler` calls it after it has stored the rules. `author_key` is shared with the admission webhook, which
records under it who wrote a contract that halts. Pure.
"""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.governance.contract import Contract
from formulary_catalog.domain.governance.rules import lifts_less
from formulary_operator.api.names import Json
from formulary_operator.kube.conditions import Said, conditions, conditions_of, find
from formulary_operator.workflows.status import Transition

_TYPE = "Ready"
_HALTING = "Halting"


def in_force(contract: Contract) -> Said:
    """The rules hold as they were applied last; the message names those that lift less than in earlier releases."""
    rules = len(contract.rules)
    counted = f"{rules} {'rule is' if rules == 1 else 'rules are'} in force"
    less = lifts_less(contract)
    return Said(type=_TYPE, met=True, reason="InForce", message=f"{counted}; {less}" if less else counted)


def halting(where: str, *, reason: str) -> Said:
    """The emergency stop holds."""
    return Said(
        type=_TYPE,
        met=True,
        reason=_HALTING,
        message=f"runs are halted {where}: {reason}; remove the HALT rule or this contract to let new ones begin",
    )


def not_in_force(problem: str, *, has_earlier: bool) -> Said:
    """The newest rules are none; those that the object had before hold on."""
    fate = "its last good rules stay in force" if has_earlier else "none of its rules is in force"
    return Said(type=_TYPE, met=False, reason="Invalid", message=f"{problem}; {fate}")


def contract_status(document: Mapping[str, Any], said: Said, *, now: str) -> Json:
    """The status that the object should have."""
    return {
        "observedGeneration": document["metadata"].get("generation"),
        "conditions": conditions([said], document=document, now=now),
    }


def author_key(metadata: Mapping[str, Any]) -> str:
    """The key under which the webhook notes who wrote this state of a contract that halts."""
    return f"{metadata['uid']}/{metadata.get('generation')}"


def contract_change(document: Mapping[str, Any], said: Said) -> Transition | None:
    """The Event that this deserves: the rules are in force, or no more as they were applied last."""
    if find(conditions_of(document), _TYPE).get("reason") == said.reason:
        return None
    normal = said.met and said.reason != _HALTING
    return Transition(type="Normal" if normal else "Warning", reason=said.reason, message=said.message)
