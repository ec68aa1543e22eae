"""Actions that are not ours: what the gate and a contract say to them.

`services/governance/service` calls it for the governance tools. The gate judges actions by their words and a table of
commands, since there are no facts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from formulary_catalog.domain.governance.commands import dangers
from formulary_catalog.domain.governance.contract import Contract, Effect
from formulary_catalog.domain.governance.gate import (
    GateReport,
    Risk,
    Severity,
    gate_report,
    is_harmless,
    is_production_like,
)
from formulary_catalog.domain.governance.rules import MatchedRule, Subject, matched_rules
from formulary_catalog.domain.text import split_camel_case, words
from formulary_catalog.domain.workflows.labels import fold
from formulary_catalog.domain.workflows.manifest import FilledText, Text
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS

_READING = frozenset(
    "analyze check compare count describe diff discover explain fetch find get inspect list lookup observe open peek "
    "ping plan preview query read render review scan search select show status summarize tail top trace validate "
    "verify view watch".split()
)
_CHANGING = frozenset(
    "add allow annotate apply approve attach bind call commit configure connect copy create deploy disable edit enable "
    "exec execute expose grant import insert install invoke label merge migrate modify move patch pause post "
    "publish push put rebalance rename replace resize restart restore resume retry rollback rollout rotate run scale "
    "send set start stop suspend switch sync tag taint trigger undo unpause update upgrade upload upsert write".split()
)
_DESTROYING = frozenset(
    "clear cordon delete deprovision destroy detach drain drop erase evict expire flush force format kill overwrite "
    "prune purge reboot remove reset revoke shutdown terminate truncate uninstall unmount wipe".split()
)
_RAISED = {Severity.LOW: Severity.MEDIUM, Severity.MEDIUM: Severity.HIGH, Severity.HIGH: Severity.CRITICAL}
_MAX_SHOWN = 100
_BLOCKING = frozenset({Effect.HALT, Effect.DENY, Effect.REQUIRE_APPROVAL, Effect.REQUIRE_EVIDENCE})
"""Neither approvals nor evidence can be shown for an action that is not ours, so what asks for them blocks."""


class ProposedAction(BaseModel):
    """An action as its author describes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action_type: Annotated[FilledText, StringConstraints(max_length=253)]
    tool: Annotated[Text, StringConstraints(max_length=253)] = ""
    resource: Annotated[Text, StringConstraints(max_length=4000)] = ""
    path_prefix: Annotated[Text, StringConstraints(max_length=1000)] = ""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """An explicit null is an absent member."""
        if not isinstance(value, dict):
            return value
        return {key: member for key, member in value.items() if member is not None}

    def __str__(self) -> str:
        text = " ".join(part for part in (self.action_type, self.tool, self.resource) if part)
        return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def gate_actions(
    task: str,
    *,
    context: Mapping[str, Any],
    actions: Sequence[ProposedAction],
    harmless: frozenset[str] = HARMLESS_ENVIRONMENTS,
) -> GateReport:
    """The risks of actions of any kind.

    Reading is allowed. What changes something is a risk, what destroys a greater one, and each is one step graver where
    the task, the context or the action speaks of production, or the context names an environment that is not one of
    `harmless`. An action about which nothing is known makes the whole UNKNOWN, as does a task without actions.
    """
    if not actions:
        nothing = Risk(severity=Severity.LOW, category="no-actions", message="no action is proposed; name each of them")
        return gate_report([nothing], unknown=True)
    in_production = (
        is_production_like(task)
        or any(map(is_production_like, _texts(context)))
        or not all(is_harmless(name, harmless=harmless) for name in _environments(context))
    )
    judged = [_judged(action, in_production=in_production) for action in actions]
    return gate_report([risk for risks, _ in judged for risk in risks], unknown=not all(known for _, known in judged))


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


def _judged(action: ProposedAction, *, in_production: bool) -> tuple[list[Risk], bool]:
    """The risks of one action, and whether anything is known about it."""
    found = dangers(f"{action.action_type}\n{action.tool}\n{action.resource}")
    verbs = set(_verbs(action))
    risks = [(danger.severity, "destructive", f"{action}: {danger.name}") for danger in found]
    if not verbs.isdisjoint(_DESTROYING):
        risks.append((Severity.HIGH, "destructive", f"{action} destroys or interrupts"))
    elif not verbs.isdisjoint(_CHANGING):
        risks.append((Severity.MEDIUM, "change", f"{action} changes something"))
    elif not found and verbs.isdisjoint(_READING):
        return [_risk(Severity.MEDIUM, "unknown-action", f"{action}: what it does is not known")], False
    raised = in_production or is_production_like(f"{action.resource} {action.path_prefix}")
    return [_risk(severity, category, message, raised=raised) for severity, category, message in risks], True


def _verbs(action: ProposedAction) -> Iterator[str]:
    """The words of the action's type, else of its tool; `deletePod`, `delete_pod` and `pods.delete` hold the same."""
    for text in (action.action_type, action.tool):
        yield from (part.casefold() for word in words(text) for part in split_camel_case(word))


def _environments(value: object) -> Iterable[str]:
    """What a context calls its environment, at whatever depth."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, Mapping):
            yield from (str(name) for key, name in current.items() if fold(str(key)) == "environment" and name)
            pending.extend(current.values())
        elif isinstance(current, list | tuple):
            pending.extend(current)


def _texts(value: object) -> Iterable[str]:
    """The texts of a context, and the name of each member that is set to true: `production: true`."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, Mapping):
            yield from (str(key) for key, member in current.items() if member is True)
            pending.extend(current.values())
        elif isinstance(current, list | tuple):
            pending.extend(current)


def _risk(severity: Severity, category: str, message: str, *, raised: bool = False) -> Risk:
    if not raised:
        return Risk(severity=severity, category=category, message=message)
    return Risk(severity=_RAISED.get(severity, severity), category=category, message=f"{message}, in production")


def _strongest(contract: Contract, action: ProposedAction, *, caller: str, now: datetime) -> list[MatchedRule]:
    subject = Subject(action_type=action.action_type, path=action.path_prefix, caller=caller)
    rules = matched_rules([contract], subject, now=now)
    return [rule for rule in rules if rule.effect is rules[0].effect]
