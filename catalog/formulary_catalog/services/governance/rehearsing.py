"""Trying a contract before it is applied: which recorded decisions it would have changed.

REST, `formulary governance rehearse` and the console call it. The contract takes the place of the one of its name, if
that is in force, else it is added; all others are those in force now, on both sides of each comparison, so that what
differs is what applying it would do. Who asks needs to read contracts in its namespace, and only runs that the caller
may read are counted. `domain/runs/rehearsal` decides.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from formulary_catalog.domain.access import READ_CONTRACTS, READ_INVOCATIONS, Caller
from formulary_catalog.domain.entry import ContractEntry
from formulary_catalog.domain.governance.answers import (
    ChangedRun,
    Changes,
    Decided,
    NotReplayed,
    RehearsalAnswer,
    RunReason,
    TriedRule,
)
from formulary_catalog.domain.governance.contract import Contract, contract
from formulary_catalog.domain.governance.decision import RunDecision
from formulary_catalog.domain.governance.run_risks import FROZEN_WINDOW
from formulary_catalog.domain.moments import moment, moment_said
from formulary_catalog.domain.runs.admission_decision import BasisUnreadable, DecisionBasis
from formulary_catalog.domain.runs.rehearsal import Change, Comparison, RecordedDecision, Rehearsal, Rulebook
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.waiting_room import WaitingRoom
from formulary_catalog.errors import Overloaded
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import ReadableNamespaces
from formulary_catalog.kernel.trail import Record
from formulary_catalog.kernel.visibility import namespaces_with
from formulary_catalog.store.runs.decisions import DecidedRun, DecisionReader

MOST = 10_000
"""Decisions that are looked at, the newest ones; fewer where there are very many rules."""
_MOST_COMPARISONS = 2_000_000
"""Of decisions with rules: some seconds."""
DEFAULT_SINCE = "30d"
DEFAULT_SHOWN = 100
MAX_SHOWN = 500
_PAGE = 500
_WAITING = 8
_NOT_READABLE = "rules of a contract that you may not read"
_NO_INCIDENT = ContextReference()
_OLDER = "decided by a release that did not record what its decisions turned on"


class Rehearsing:
    """Answers callers, one at a time; every call leaves an event in the trail. `harmless` is that of the settings."""

    def __init__(self, parts: CatalogParts, *, shared_namespace: str, harmless: frozenset[str]) -> None:
        self._trail = parts.trail
        self._decisions = DecisionReader(parts.database)
        self._readable = ReadableNamespaces(parts.database)
        self.shared_namespace = shared_namespace
        self._harmless = harmless
        self._turn = asyncio.Lock()
        self._places = WaitingRoom(places=_WAITING, places_each=1)

    async def rehearse(
        self, entry: ContractEntry, *, since: str = DEFAULT_SINCE, limit: int = DEFAULT_SHOWN, caller: Caller
    ) -> RehearsalAnswer:
        """What the contract would have changed `since`; at most `limit` runs are listed, all are counted.

        Raises:
            InvalidInput: `since` is no time.
            NotAllowed: the caller may not read contracts in its namespace.
            Unavailable: the database does not answer, a contract in force cannot be understood, or the rights cannot
                be checked.
        """
        tried = contract(entry.spec, name=entry.name, namespace=entry.namespace)
        async with self._trail.record(
            "read.rehearsal",
            caller=caller,
            reference=_NO_INCIDENT,
            arguments={"contract": str(tried), "since": since},
        ) as record:
            await caller.require(READ_CONTRACTS, namespace=entry.namespace)
            start = moment_said(since, now=datetime.now(UTC), name="since")
            async with self._turn_of(caller):
                return await self._rehearsed(tried, start=start, limit=limit, caller=caller, record=record)

    @asynccontextmanager
    async def _turn_of(self, caller: Caller) -> AsyncIterator[None]:
        """The turn of a caller, who may wait for one at a time."""
        with self._places.place(caller.name) as is_free:
            if not is_free:
                raise Overloaded(
                    "too many contracts are being replayed at the moment; retry when that is over",
                    retry_after=2.0,
                )
            async with self._turn:
                yield

    async def _rehearsed(
        self, tried: Contract, *, start: datetime, limit: int, caller: Caller, record: Record
    ) -> RehearsalAnswer:
        concerned = "" if tried.namespace == self.shared_namespace else tried.namespace
        namespaces = await self._readable.of(caller, READ_INVOCATIONS, namespace=concerned)
        in_force = Rulebook(
            await self._decisions.contracts(
                namespaces=namespaces, shared_namespace=self.shared_namespace, namespace=concerned
            ),
            shared_namespace=self.shared_namespace,
        )
        rehearsal = Rehearsal(tried, in_force=in_force, harmless=self._harmless)
        most = min(MOST, _MOST_COMPARISONS // max(rehearsal.rules, 1))
        runs: dict[str, DecidedRun] = {}
        unreadable: dict[str, str] = {}
        looked_at = 0
        async for decided in self._recorded(namespaces=namespaces, namespace=concerned, since=start):
            looked_at += 1
            if looked_at > most:
                break
            try:
                rehearsal.add(_recorded_decision(decided))
                runs[decided.invocation_id] = decided
            except BasisUnreadable as problem:
                unreadable[decided.invocation_id] = str(problem)
            await asyncio.sleep(0)  # others get their turn: a decision by very many rules takes milliseconds
        older = await self._decisions.without_basis(namespaces=namespaces, namespace=concerned, since=start)
        changes = rehearsal.changes()
        counted = Counter(each.change for each in changes)
        not_replayed = Counter(unreadable.values()) + Counter({_OLDER: older})
        record.result = {"runs": rehearsal.runs, "changed": len(changes)}
        deciding = {
            _place_of(rule.contract) for each in changes[:limit] for rule in (*each.before.rules, *each.after.rules)
        }
        readable = await namespaces_with(caller, READ_CONTRACTS, among=frozenset(deciding))
        return RehearsalAnswer(
            contract=str(tried),
            replaces=in_force.holds(tried),
            since=moment(start),
            runs=rehearsal.runs,
            decisions=rehearsal.decisions,
            changed=Changes(**{change.value: counted[change] for change in Change}),
            unchanged=rehearsal.runs - len(changes),
            not_replayed=[NotReplayed(reason=reason, runs=number) for reason, number in sorted(not_replayed.items())],
            decided_otherwise=rehearsal.decided_otherwise,
            complete=looked_at <= most,
            changes=[
                _changed(each, run=runs[each.recorded.invocation_id], readable=readable) for each in changes[:limit]
            ],
            rules=[
                TriedRule(id=rule.id, effect=rule.effect.value, decisions=rehearsal.matched[rule.id])
                for rule in tried.rules
            ],
            notes=list(_notes(rehearsal, tried=tried, most=most if looked_at > most else 0, namespaces=namespaces)),
        )

    async def _recorded(
        self, *, namespaces: frozenset[str] | None, namespace: str, since: datetime
    ) -> AsyncIterator[DecidedRun]:
        """The decisions, the newest first, read page by page."""
        before = None
        while True:
            page = await self._decisions.page(
                namespaces=namespaces, namespace=namespace, since=since, before=before, limit=_PAGE
            )
            for decided in page:
                yield decided
            if len(page) < _PAGE:
                return
            before = (page[-1].at, page[-1].id)


def _recorded_decision(decided: DecidedRun) -> RecordedDecision:
    return RecordedDecision(
        invocation_id=decided.invocation_id,
        namespace=decided.namespace,
        at=decided.at,
        outcome=decided.outcome,
        basis=DecisionBasis.from_json(decided.basis),
    )


def _changed(comparison: Comparison, *, run: DecidedRun, readable: frozenset[str] | None) -> ChangedRun:
    assert comparison.change is not None
    return ChangedRun(
        change=comparison.change.value,
        invocation_id=run.invocation_id,
        trace_id=run.trace_id,
        workflow_id=run.workflow,
        version=run.workflow_version,
        namespace=run.namespace,
        target=visible(str(run.target)),
        dry_run=run.dry_run,
        decided_at=moment(comparison.recorded.at),
        recorded=comparison.recorded.outcome,
        before=_side(comparison.before, readable=readable),
        after=_side(comparison.after, readable=readable),
        reasons=_reasons(comparison.after, readable=readable) if comparison.change is Change.ALLOWED else [],
    )


def _side(decision: RunDecision, *, readable: frozenset[str] | None) -> Decided:
    """Without the reasons, which name rules, where one is of a contract that the caller may not read."""
    is_readable = _is_readable(decision, readable)
    return Decided(
        outcome=decision.outcome.value,
        why=[visible(reason) for reason in decision.why] if is_readable else [_NOT_READABLE],
        missing=decision.missing if is_readable else [],
    )


def _reasons(decision: RunDecision, *, readable: frozenset[str] | None) -> list[RunReason]:
    """Why the run needs an approval by default. All but a restricted time, which names rules, is said of the run."""
    is_readable = _is_readable(decision, readable)
    return [
        RunReason(reason=reason.category, message=visible(reason.message))
        for reason in decision.reasons
        if is_readable or reason.category != FROZEN_WINDOW
    ]


def _is_readable(decision: RunDecision, readable: frozenset[str] | None) -> bool:
    return readable is None or readable.issuperset(_place_of(rule.contract) for rule in decision.rules)


def _place_of(contract: str) -> str:
    return contract.partition("/")[0]


def _notes(rehearsal: Rehearsal, *, tried: Contract, most: int, namespaces: frozenset[str] | None) -> Iterator[str]:
    if namespaces is not None and not namespaces:
        yield f"no run was looked at: you may not {READ_INVOCATIONS} in any namespace that the contract is about"
    elif not rehearsal.runs:
        yield (
            "there was no decision to try it on, so this says nothing about what it will do; name an earlier time in "
            "since"
        )
    if most:
        yield f"only the newest {most} decisions were looked at; name a later time in since"
    if rehearsal.decided_otherwise:
        yield (
            f"contracts have changed since: {rehearsal.decided_otherwise} runs would be decided otherwise by those in "
            "force now, and are compared with what those decide"
        )
    if any(rule.match.during is not None for rule in tried.rules):
        yield "rules with during are tried at the time of each decision: one for a time to come matches nothing here"
