"""The answers that people read of halts and of contracts that are tried before they are applied (DESIGN section 14).

The services make them; REST, the command line and the console present them.
"""

from typing import Literal

from pydantic import Field

from formulary_catalog.domain.answers import Answer
from formulary_catalog.domain.governance.halting import Halt
from formulary_catalog.domain.search.results import moment
from formulary_catalog.domain.workflows.visible import visible


class HaltAnswer(Answer):
    """A halt in force."""

    namespace: str = Field(description="Empty for everywhere.")
    contract: str = Field(description="namespace/name of the contract that says it; empty for a person's.")
    source: str = Field(
        description="server: said over a server, which lifts it. database: by a command or a contract, lifted there."
    )
    reason: str
    by: str
    at: str
    trace_id: str
    way_out: str = Field(description="How it is lifted.")
    message: str = Field(description="All of it in one sentence.")


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


class HaltedAnswer(Answer):
    """What a halt came to: the one in force, and how many runs it ends."""

    halted: HaltAnswer
    ended_runs: int
    notes: list[str]


class LiftedAnswer(Answer):
    """The halt that was lifted, null where nothing was halted so; and what is halted still."""

    lifted: HaltAnswer | None
    in_force: list[HaltAnswer]


class Decided(Answer):
    """A decision, and why."""

    outcome: Literal["ALLOW", "AWAIT", "DEGRADE", "BLOCK", "HALT"]
    why: list[str] = Field(description="The rules, risks and defaults that decide, in words.")
    missing: list[str] = Field(description="What would let a waiting run go ahead.")


class ChangedRun(Answer):
    """A run that would have gone otherwise, by the first of its decisions that would have been another."""

    change: Literal["allowed", "denied", "waiting", "dry_run"] = Field(description="What it would newly be.")
    invocation_id: str
    trace_id: str
    workflow_id: str
    version: str
    namespace: str
    target: str
    dry_run: bool = Field(description="Whether it was asked for as a dry run, which waits for nobody.")
    decided_at: str
    recorded: str = Field(description="What it came to at the time.")
    before: Decided = Field(description="By the contracts in force.")
    after: Decided = Field(description="By those with the contract that is tried.")


class Changes(Answer):
    """How many runs would newly be what."""

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
    decisions: int = Field(description="Recorded decisions that it matches; 0 for a rule that never would have.")


class RehearsalAnswer(Answer):
    """What a contract would have changed."""

    contract: str = Field(description="namespace/name.")
    replaces: bool = Field(description="Whether a contract of that name is in force, in whose place it was tried.")
    since: str
    runs: int = Field(description="Runs whose decisions were made again.")
    decisions: int
    changed: Changes
    unchanged: int = Field(description="Runs of which no decision changes.")
    not_replayed: list[NotReplayed]
    decided_otherwise: int = Field(
        description="Runs that the contracts in force now decide otherwise than was decided then."
    )
    complete: bool = Field(description="Whether all decisions since then were looked at, not the newest alone.")
    changes: list[ChangedRun] = Field(
        description="Newly allowed runs first, those that were denied before all; then denied, waiting, dry runs."
    )
    rules: list[TriedRule]
    notes: list[str]
