"""The gate for actions that are not ours: judged by their words and a table of commands, for there are no facts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from formulary_catalog.domain.governance.commands import dangers
from formulary_catalog.domain.governance.gate import (
    GateReport,
    Risk,
    Severity,
    gate_report,
    is_harmless,
    is_production_like,
)
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
