"""Which rules of contracts are about a subject.

Where a fact is not known, it counts against the action: a rule that restricts matches a namespace, an environment, a
signal, a risk level or a caller that nobody knows, a rule that allows does not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from formulary_catalog.domain.governance.contract import ApprovalReason, Contract, Effect, Match, Rule
from formulary_catalog.domain.text import one_line
from formulary_catalog.domain.workflows.labels import WILDCARD, fold

_SEPARATOR = "/"
_OF_WORKFLOWS = frozenset(ApprovalReason) - {ApprovalReason.UNPROVEN, ApprovalReason.UNAUTHORED}
"""The reasons that a rule lifts by naming the workflow. Its name says neither who asks nor who wrote it."""
_ONCE_LIFTED_BY_ALL = (ApprovalReason.BUNDLE, ApprovalReason.TEMPLATE, ApprovalReason.REPEAT_FAILURE)
_SEGMENTS_OF_A_WORKFLOW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What rules are matched with. `workflow` is namespace/name, empty for an action that is no run of one; other facts
    that are empty are not known."""

    action_type: str
    path: str = ""
    workflow: str = ""
    namespaces: frozenset[str] = frozenset()
    environment: str = ""
    signal: str = ""
    risk_level: str = ""
    caller: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRule:
    """A rule that matched, and whose it is."""

    contract: str
    id: str
    effect: Effect
    rationale: str = ""
    temporary: bool = False
    """Whether it holds for a time only, such as a freeze."""
    lifts: frozenset[ApprovalReason] = frozenset()
    """The reasons for an approval that the rule names, one by one or by naming the workflow."""

    def __str__(self) -> str:
        why = f" ({one_line(self.rationale)})" if self.rationale.strip() else ""
        return f"{self.effect} by rule {self.id} of contract {self.contract}{why}"

    def as_json(self) -> dict[str, str]:
        """The rule as it is recorded."""
        return {"contract": self.contract, "id": self.id, "effect": self.effect.value, "rationale": self.rationale}


def matched_rules(contracts: Iterable[Contract], subject: Subject, *, now: datetime) -> tuple[MatchedRule, ...]:
    """Every rule that matches, the strongest first, then by contract and id."""
    found = [
        MatchedRule(
            contract=str(each),
            id=rule.id,
            effect=rule.effect,
            rationale=rule.rationale,
            temporary=rule.match.during is not None,
            lifts=_lifted(rule, subject, home=each.namespace),
        )
        for each in contracts
        for rule in each.rules
        if matches(rule, subject, now=now, home=each.namespace)
    ]
    return tuple(sorted(found, key=_place))


def rules_naming(
    contracts: Iterable[Contract], *, namespace: str, name: str, action_type: str
) -> tuple[MatchedRule, ...]:
    """The rules that name a workflow, its path or its action type, the strongest first. Those for all do not."""
    workflow = f"{namespace}/{name}"
    path = _segments(f"/workflows/{workflow}")
    found = [
        MatchedRule(contract=str(each), id=rule.id, effect=rule.effect, rationale=rule.rationale)
        for each in contracts
        for rule in each.rules
        if not _names_of(workflow, restricts=rule.effect.restricts, home=each.namespace).isdisjoint(
            rule.match.workflows
        )
        or fold(action_type) in map(fold, rule.match.action_types)
        or (rule.match.path_prefix != WILDCARD and _segments(rule.match.path_prefix) == path)
    ]
    return tuple(sorted(found, key=_place))


def lifts_less(contract: Contract) -> str:
    """What to say of ALLOW rules that lifted every approval in releases without `lifts`, and do not say what now.

    A rule says it with `lifts`, the empty list included, or by naming its workflows. Empty if there is no such rule.
    """
    ids = [
        rule.id
        for rule in contract.rules
        if rule.effect is Effect.ALLOW and "lifts" not in rule.model_fields_set and not _names_workflows(rule.match)
    ]
    if not ids:
        return ""
    rules = f"rule {ids[0]} no longer lifts" if len(ids) == 1 else f"rules {', '.join(ids)} no longer lift"
    return (
        f"{rules} the approvals that {', '.join(_ONCE_LIFTED_BY_ALL)} need; set `lifts` to the reasons to lift ([] for "
        "none), or name the workflows in match"
    )


def _place(rule: MatchedRule) -> tuple[int, str, str, str, bool, list[str]]:
    """The strongest first; complete, so that the order in which rules were written cannot show."""
    return -rule.effect.strength, rule.contract, rule.id, rule.rationale, rule.temporary, sorted(rule.lifts)


def matches(rule: Rule, subject: Subject, *, now: datetime, home: str = "") -> bool:
    """Whether the rule is about the subject at this moment. `home` is the namespace of the contract."""
    match, restricts = rule.match, rule.effect.restricts
    return (
        _below(match.path_prefix, subject.path)
        and _names(match.workflows, _names_of(subject.workflow, restricts=restricts, home=home))
        and _folded(match.action_types, subject.action_type, when_unknown=False)
        and _in_namespaces(match.namespaces, subject.namespaces, restricts=restricts)
        and _folded(match.environments, subject.environment, when_unknown=restricts)
        and _folded(match.signals, subject.signal, when_unknown=restricts)
        and _folded(match.risk_levels, subject.risk_level, when_unknown=restricts)
        and _called_by(match.callers, subject.caller, restricts=restricts)
        and (match.during is None or match.during.holds(now))
    )


def _lifted(rule: Rule, subject: Subject, *, home: str) -> frozenset[ApprovalReason]:
    """The reasons that an ALLOW rule which matches the subject names. Wildcards name nothing.

    Action type and risk level are what the workflow's author declares, so they say nothing of these risks. Nor does a
    namespace: what another team wrote there is lifted by name, or by the reason `foreign`.
    """
    if rule.effect.restricts:
        return frozenset()
    names = _names_of(subject.workflow, restricts=False, home=home)
    path = _segments(rule.match.path_prefix)
    if not names.isdisjoint(rule.match.workflows) or (path and path == _segments(subject.path)):
        return _OF_WORKFLOWS.union(rule.lifts)
    return frozenset(rule.lifts)


def _names_workflows(match: Match) -> bool:
    """Whether each workflow that a rule can match is named in it."""
    by_name = bool(match.workflows) and WILDCARD not in match.workflows
    return by_name or len(_segments(match.path_prefix)) >= _SEGMENTS_OF_A_WORKFLOW


def _below(prefix: str, path: str) -> bool:
    if prefix in ("", WILDCARD):
        return True
    wanted = _segments(prefix)
    return _segments(path)[: len(wanted)] == wanted


def _segments(path: str) -> list[str]:
    """The steps of a path; `.`, `..` and doubled slashes lead nowhere else."""
    steps: list[str] = []
    for step in path.strip().split(_SEPARATOR):
        if step == "..":
            steps = steps[:-1]
        elif step not in ("", "."):
            steps.append(step)
    return steps


def _names_of(workflow: str, *, restricts: bool, home: str) -> set[str]:
    """What a rule may call the workflow. A name alone is enough to forbid; to allow, it means a workflow of the
    contract's own namespace, or anybody could give the name of an allowed workflow to one of theirs."""
    namespace, _, name = workflow.rpartition(_SEPARATOR)
    return {workflow, name} if restricts or namespace == home or not home else {workflow}


def _names(wanted: Sequence[str], given: set[str]) -> bool:
    known = given - {""}
    return not wanted or (bool(known) and (WILDCARD in wanted or not known.isdisjoint(wanted)))


def _in_namespaces(wanted: Sequence[str], given: frozenset[str], *, restricts: bool) -> bool:
    if not wanted or WILDCARD in wanted:
        return True
    if not given:
        return restricts
    return bool(given.intersection(wanted)) if restricts else given.issubset(wanted)


def _called_by(wanted: Sequence[str], caller: str, *, restricts: bool) -> bool:
    if not wanted or WILDCARD in wanted:
        return True
    return caller in wanted if caller else restricts


def _folded(wanted: Sequence[str], given: str, *, when_unknown: bool) -> bool:
    if not wanted or WILDCARD in wanted:
        return True
    return fold(given) in {fold(each) for each in wanted} if given.strip() else when_unknown
