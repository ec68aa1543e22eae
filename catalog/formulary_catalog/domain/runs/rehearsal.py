"""What a contract would change: recorded decisions made again, by the contracts in force and by those with it.

Pure functions; `services/governance/rehearsing` reads the decisions and asks for them one by one. Both sides are
decided by `judge`, from the facts and at the moment of the decision, so that they differ by the contract alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from formulary_catalog.domain.governance.contract import Contract
from formulary_catalog.domain.governance.decision import DecisionOutcome, RunDecision
from formulary_catalog.domain.governance.halting import Halt, halt_reason
from formulary_catalog.domain.runs.admission_decision import DecisionBasis, judge
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS


class Change(StrEnum):
    """What a run would newly be, the most dangerous first."""

    ALLOWED = "allowed"
    DENIED = "denied"
    WAITING = "waiting"
    DRY_RUN = "dry_run"


_CHANGES: Mapping[DecisionOutcome, Change] = {
    DecisionOutcome.ALLOW: Change.ALLOWED,
    DecisionOutcome.AWAIT: Change.WAITING,
    DecisionOutcome.DEGRADE: Change.DRY_RUN,
    DecisionOutcome.BLOCK: Change.DENIED,
    DecisionOutcome.HALT: Change.DENIED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """A decision on a run as it was recorded; `outcome` is what it came to then."""

    invocation_id: str
    namespace: str
    at: datetime
    outcome: str
    basis: DecisionBasis


class Rulebook:
    """The contracts that apply to runs, by their namespaces. Those of `shared_namespace` apply to all."""

    def __init__(self, contracts: Iterable[Contract], *, shared_namespace: str) -> None:
        self._contracts = {(each.namespace, each.name): each for each in contracts}
        self._shared_namespace = shared_namespace

    @property
    def rules(self) -> int:
        """How many rules they have."""
        return sum(len(each.rules) for each in self._contracts.values())

    def holds(self, contract: Contract) -> bool:
        """Whether a contract of this name is in force."""
        return (contract.namespace, contract.name) in self._contracts

    def with_contract(self, contract: Contract) -> "Rulebook":
        """The same with one contract more, or with this one in place of that of its name."""
        return Rulebook([*self._contracts.values(), contract], shared_namespace=self._shared_namespace)

    def decide(self, basis: DecisionBasis, *, namespace: str, harmless: frozenset[str]) -> RunDecision:
        """The decision on a run in a namespace by these contracts, halts that they say included."""
        contracts = self._applying_to(namespace)
        situation = basis.situation
        halts = (*situation.halts, *self._halts(contracts, at=situation.now))
        return judge(basis.facts, replace(situation, contracts=contracts, halts=halts), harmless=harmless)

    def _applying_to(self, namespace: str) -> tuple[Contract, ...]:
        places = (self._shared_namespace, namespace)
        return tuple(each for each in self._contracts.values() if each.namespace in places)

    def _halts(self, contracts: Iterable[Contract], *, at: datetime) -> Iterable[Halt]:
        for each in contracts:
            if reason := halt_reason(each):
                everywhere = each.namespace == self._shared_namespace
                yield Halt(
                    namespace="" if everywhere else each.namespace,
                    contract=str(each),
                    reason=reason,
                    by=f"contract {each}",
                    at=at,
                    trace_id="",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One decision by the contracts in force, and by those with the contract that is tried."""

    recorded: RecordedDecision
    before: RunDecision
    after: RunDecision

    @property
    def change(self) -> Change | None:
        """What it would newly be; None where it stays as it is. To wait for something else is to wait newly."""
        if (self.before.outcome, self.before.missing) == (self.after.outcome, self.after.missing):
            return None
        return _CHANGES[self.after.outcome]

    @property
    def decided_otherwise(self) -> bool:
        """Whether the contracts in force decide otherwise than was decided then: some have changed since."""
        return self.before.outcome != self.recorded.outcome


class Rehearsal:
    """A contract tried on recorded decisions, which are added one by one in any order."""

    def __init__(
        self, contract: Contract, *, in_force: Rulebook, harmless: frozenset[str] = HARMLESS_ENVIRONMENTS
    ) -> None:
        self._name = str(contract)
        self._in_force, self._tried = in_force, in_force.with_contract(contract)
        self._harmless = harmless
        self._changed: dict[str, list[Comparison]] = {}
        self._otherwise: set[str] = set()
        self.decisions = 0
        self.matched: Counter[str] = Counter()
        """How many decisions each rule of the contract matched, by its id."""

    def add(self, recorded: RecordedDecision) -> Comparison:
        """Make one decision again, both ways."""
        before, after = (
            rules.decide(recorded.basis, namespace=recorded.namespace, harmless=self._harmless)
            for rules in (self._in_force, self._tried)
        )
        comparison = Comparison(recorded=recorded, before=before, after=after)
        self.decisions += 1
        self.matched.update({rule.id for rule in after.rules if rule.contract == self._name})
        changed = self._changed.setdefault(recorded.invocation_id, [])
        if comparison.change is not None:
            changed.append(comparison)
        if comparison.decided_otherwise:
            self._otherwise.add(recorded.invocation_id)
        return comparison

    @property
    def rules(self) -> int:
        """How many rules each decision is compared with at most."""
        return self._in_force.rules + self._tried.rules

    @property
    def runs(self) -> int:
        """Runs whose decisions were made again."""
        return len(self._changed)

    @property
    def decided_otherwise(self) -> int:
        """Runs that the contracts in force decide otherwise than was decided then."""
        return len(self._otherwise)

    def changes(self) -> Sequence[Comparison]:
        """One for each run that would change: the first decision that does, since no later one would have been made.

        Newly allowed ones first, those that were denied before all; then newly denied, waiting, and dry runs. The
        newest first.
        """
        firsts = [min(changed, key=_when) for changed in self._changed.values() if changed]
        return sorted(sorted(firsts, key=_when, reverse=True), key=_place)


def _when(comparison: Comparison) -> tuple[datetime, str]:
    return comparison.recorded.at, comparison.recorded.invocation_id


def _place(comparison: Comparison) -> tuple[int, int]:
    assert comparison.change is not None
    return list(Change).index(comparison.change), -comparison.before.outcome.strength
