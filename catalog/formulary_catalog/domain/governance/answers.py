"""The answers that people read of halts and of contracts that are tried before they are applied (DESIGN section 14).

The services make them; REST, the command line and the console present them.
"""

from typing import Literal

from pydantic import Field

from formulary_catalog.domain.answers.catalog import Answer
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.visible import visible


class HaltAnswer(Answer):
    """A halt in force."""

    namespace: str = Field(description="Empty for everywhere.")
    contract: str = Field(description="namespace/name of the contract with the HALT rule; empty if a person halted.")
    source: str = Field(
        description="server: set over a server, and lifted there. database: set by a command or a contract, and lifted "
        "there."
    )
    reason: str
    by: str
    at: str
    trace_id: str
    way_out: str = Field(description="How it is lifted.")
    message: str = Field(description="The halt in one sentence.")


def halt_answer(halt: Halt) -> HaltAnswer:
    """A halt as people read it."""
    return HaltAnswer(
        namespace=halt.namespace,
        contract=halt.contract,
        source=halt.source,
        reason=visible(halt.reason),
        by=visible(halt.by),
        at=moment(halt.at),
        trace_id=halt.trace_id,
        way_out=halt.way_out,
        message=visible(str(halt)),
    )


class HaltList(Answer):
    """The halts in force, those of everywhere first."""

    halts: list[HaltAnswer]
    notes: list[str] = Field(default_factory=list)


class HaltedAnswer(Answer):
    """The result of a halt: the halt in force, and the number of runs that it ends."""

    halted: HaltAnswer
    ended_runs: int
    notes: list[str]


class LiftedAnswer(Answer):
    """The halt that was lifted, null if there was none, and the halts still in force that the caller may see."""

    lifted: HaltAnswer | None
    in_force: list[HaltAnswer]

    def still_holds(self, namespace: str) -> bool:
        """Whether no run begins there still; empty for everywhere."""
        return any(halt.namespace in ("", namespace) for halt in self.in_force)


class Decided(Answer):
    """A decision, and why."""

    outcome: Literal["ALLOW", "AWAIT", "DEGRADE", "BLOCK", "HALT"]
    why: list[str] = Field(description="The rules, risks and defaults that decide, in words.")
    missing: list[str] = Field(description="What would let a waiting run go ahead.")


class RunReason(Answer):
    """Why a run needs an approval by default."""

    reason: str = Field(description="Category of the risk, or the word that a rule's lifts has for it.")
    message: str


class ChangedRun(Answer):
    """A run that the contract would have decided differently, at the first decision that changes."""

    change: Literal["allowed", "denied", "waiting", "dry_run"] = Field(
        description="How the run would go with the contract."
    )
    invocation_id: str
    trace_id: str
    workflow_id: str
    version: str
    namespace: str
    target: str
    dry_run: bool = Field(description="Whether it was requested as a dry run, which needs no approval.")
    decided_at: str
    recorded: str = Field(description="Decision that was recorded.")
    before: Decided = Field(description="Decision by the contracts in force.")
    after: Decided = Field(description="Decision by them and the contract that is tried.")
    reasons: list[RunReason] = Field(
        [], description="Reasons for which a newly allowed run needs an approval by default; empty for other runs."
    )


class Changes(Answer):
    """Number of runs for each change."""

    allowed: int
    denied: int
    waiting: int
    dry_run: int


class NotReplayed(Answer):
    """Decisions that cannot be made again."""

    reason: str
    runs: int


class TriedRule(Answer):
    """A rule of the contract that is tried."""

    id: str
    effect: str
    decisions: int = Field(description="Recorded decisions that the rule matches.")


class RehearsalAnswer(Answer):
    """What a contract would have changed."""

    contract: str = Field(description="namespace/name.")
    replaces: bool = Field(description="Whether it was tried in place of a contract of that name that is in force.")
    since: str
    runs: int = Field(description="Runs whose decisions were made again.")
    decisions: int
    changed: Changes
    unchanged: int = Field(description="Runs of which no decision changes.")
    not_replayed: list[NotReplayed]
    decided_otherwise: int = Field(
        description="Runs that the contracts now in force decide differently than was recorded."
    )
    complete: bool = Field(description="Whether all decisions since then were examined; false if only the newest were.")
    changes: list[ChangedRun] = Field(
        description="Newly allowed runs first, beginning with those that were denied; then denied, waiting, dry runs."
    )
    rules: list[TriedRule]
    notes: list[str]
