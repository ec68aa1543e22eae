"""Runs and contracts as people read them: lists of runs, what waits for somebody, and the rules in force.

Runs are readable by who may `get workflowinvocations` in their namespace, and by who asked for them; contracts by who
may `get governancecontracts`. What is not readable is left out.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Literal, NamedTuple

from formulary_catalog.domain.access import READ_CONTRACTS, READ_INVOCATIONS, Caller
from formulary_catalog.domain.cursor import Place, TimedRow, cursor, moment_of, place_of
from formulary_catalog.domain.governance.contract import Contract, unknown_notes
from formulary_catalog.domain.reading import (
    ContractAnswer,
    ContractList,
    InvocationPage,
    InvocationSummary,
    OutcomesAnswer,
    PeriodOutcomes,
    RuleUse,
    WaitingRunList,
)
from formulary_catalog.domain.runs.report import invocation_answer
from formulary_catalog.domain.runs.run import Invocation, true_state
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.identity import parse_reference
from formulary_catalog.kernel.lookup import FoundWorkflow
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import Readable, ReadableNamespaces
from formulary_catalog.services.runs.approvals import RunCards
from formulary_catalog.store.runs.decisions import DecisionReader, RuleCount
from formulary_catalog.store.runs.executors import ExecutorReader, Executors
from formulary_catalog.store.runs.reviewing import ReviewReader

_WAITING_IN = 200
"""Of so many namespaces in which runs wait, the longest wait first, it is asked whether a caller may read them."""
_MORE_NAMESPACES = (
    f"runs wait in more than {_WAITING_IN} namespaces; only those that have waited longest were looked through: "
    "name a namespace to see what waits there"
)
USE_DAYS = 30
"""How far back it is counted what rules decided."""
LATELY = 7
"""So many days."""
_COUNTED = 10_000
"""Of the newest so many runs."""
_NO_INCIDENT = ContextReference()
_PERIODS = {"day": 1, "week": 7}
"""Days of each."""


class RunsLately(NamedTuple):
    """Runs of the last days by what became of them, and those that wait. `may_read`: whether it says anything.

    `notes` say what was not looked through.
    """

    states: dict[str, int]
    waiting: int
    may_read: bool
    notes: list[str]


class RunReading:
    """Answers callers; every call on their behalf leaves an event in the trail."""

    def __init__(self, parts: CatalogParts) -> None:
        self._trail = parts.trail
        self._visibility, self._finder = parts.visibility, parts.finder
        self._review = ReviewReader(parts.database)
        self._cards = RunCards(parts)
        self._decisions = DecisionReader(parts.database)
        self._readable = ReadableNamespaces(parts.database)
        self._executors = ExecutorReader(parts.database)

    async def executors(self) -> Executors:
        """What runs workflows now. It says nothing about a tenant, so that asking leaves no event.

        Raises:
            Unavailable: the database does not answer.
        """
        return await self._executors.present()

    async def page(
        self, *, phase: str = "", namespace: str = "", limit: int, after: str = "", caller: Caller
    ) -> InvocationPage:
        """Runs, the newest first; `phase` is one of `Phase`, `after` the cursor of the page before.

        Raises:
            InvalidInput: the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        question = {"invocations": namespace or "*", "phase": phase}
        arguments = {name: value for name, value in {"phase": phase, "namespace": namespace}.items() if value}
        async with self._trail.record(
            "read.invocations", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            before = moment_of(after, question=question)
            phases = [phase] if phase else None
            namespaces, notes, _ = await self._readable.listed(caller, READ_INVOCATIONS, namespace=namespace)
            found = await self._review.page(
                caller=caller.name,
                namespaces=namespaces,
                namespace=namespace,
                phases=phases,
                before=before,
                limit=limit + 1,
            )
            shown = found[:limit]
            record.result = {"total": len(shown)}
            return InvocationPage(
                invocations=[_summary(run) for run in shown],
                next_cursor=cursor(_place(shown[-1]), question=question) if len(found) > limit else "",
                notes=notes,
            )

    async def lately(self, caller: Caller) -> RunsLately:
        """What became of the runs of the last days, and how many wait for a person, as far as the caller may read them.

        Raises:
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        async with self._trail.record(
            "read.invocations", caller=caller, reference=_NO_INCIDENT, arguments={"days": LATELY}
        ) as record:
            namespaces, notes, nowhere = await self._readable.listed(caller, READ_INVOCATIONS)
            since = datetime.now(UTC) - timedelta(days=LATELY)
            states = await self._review.states(caller=caller.name, namespaces=namespaces, since=since)
            waiting = await self.waiting_count(caller)
            record.result = {"total": sum(states.values())}
            return RunsLately(
                states=states,
                waiting=waiting,
                may_read=not nowhere or bool(states or waiting),
                notes=notes,
            )

    async def outcomes(
        self, *, days: int, by: Literal["day", "week"] = "day", workflow_id: str = "", caller: Caller
    ) -> OutcomesAnswer:
        """How the real runs of the last days ended, in periods, whole ones; of all versions of a workflow, if named.

        Raises:
            NotFound: no visible workflow has that name.
            InvalidInput: the name is malformed, or needs a namespace.
            NotAllowed, Unavailable: as `Visibility.of`.
        """
        arguments = {"days": days, "by": by, **({"workflow_id": workflow_id} if workflow_id else {})}
        async with self._trail.record(
            "read.outcomes", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            found: FoundWorkflow | None = None
            if workflow_id:
                scope = await self._visibility.of(_NO_INCIDENT, caller=caller, record=record, browsing=True)
                found = await self._finder.find_within(parse_reference(workflow_id), scope=scope)
            length = _PERIODS[by]
            number = -(-days // length)
            first = datetime.now(UTC).date() - timedelta(days=number * length - 1)
            ended = await self._review.ended_by_day(
                caller=caller.name,
                namespaces=await self._readable.of(caller, READ_INVOCATIONS),
                version_ids=[line.version_id for line in found.history] if found is not None else None,
                since=datetime.combine(first, time(), UTC),
            )
            counts = [[0, 0] for _ in range(number)]
            for day, succeeded, failed in ended:
                # A run that ends while this is read may end tomorrow.
                period = counts[min((day - first).days // length, number - 1)]
                period[0] += succeeded
                period[1] += failed
            answer = OutcomesAnswer(
                workflow_id=f"{found.stored.namespace}/{found.stored.name}" if found is not None else "",
                by=by,
                periods=[
                    PeriodOutcomes(
                        begins=(first + timedelta(days=place * length)).isoformat(), succeeded=succeeded, failed=failed
                    )
                    for place, (succeeded, failed) in enumerate(counts)
                ],
            )
            record.result = {"total": answer.total}
            return answer

    async def waiting(
        self,
        *,
        namespace: str = "",
        only: str = "",
        trace_id: str = "",
        limit: int,
        after: str = "",
        caller: Caller,
        known: Collection[str] | None = None,
    ) -> WaitingRunList:
        """The runs that wait for a person, the oldest first, with what that person has to judge.

        `only` is the id of one, `trace_id` that of the trace to which they belong, `after` the cursor of the page
        before. `known` are the states of runs that a page shows which refreshes itself: where nothing is new to it,
        there is no event.

        Raises:
            InvalidInput: the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        answer = None
        if known is not None:
            answer = await self._waiting(
                namespace=namespace, only=only, trace_id=trace_id, limit=limit, after=after, caller=caller
            )
            if all(run.state in known for run in answer.approvals):
                return answer
        arguments = {"namespace": namespace} if namespace else {}
        async with self._trail.record(
            "read.approvals", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            answer = answer or await self._waiting(
                namespace=namespace, only=only, trace_id=trace_id, limit=limit, after=after, caller=caller
            )
            record.result = {"total": answer.total}
            return answer

    async def waiting_count(self, caller: Caller) -> int:
        """How many runs wait for a person that the caller may read. Every page of the console asks: it leaves no event.

        Raises:
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        concerned = await self._review.namespaces_of_waiting(at_most=_WAITING_IN)
        if not concerned:
            return 0
        namespaces = await self._readable.among(caller, READ_INVOCATIONS, concerned)
        _, total = await self._review.waiting(caller=caller.name, namespaces=namespaces, limit=0)
        return total

    async def _waiting(
        self, *, namespace: str, only: str, trace_id: str, limit: int, after: str, caller: Caller
    ) -> WaitingRunList:
        question = {"approvals": namespace or "*"}
        last = moment_of(after, question=question)
        # Only where something waits: a person of one namespace among thousands must not miss it.
        concerned = [namespace] if namespace else await self._review.namespaces_of_waiting(at_most=_WAITING_IN + 1)
        namespaces = await self._readable.among(caller, READ_INVOCATIONS, concerned[:_WAITING_IN])
        found, total = await self._review.waiting(
            caller=caller.name,
            namespaces=namespaces,
            namespace=namespace,
            only=only,
            trace_id=trace_id,
            after=last,
            limit=limit + 1,
        )
        shown = found[:limit]
        readable = Readable(None, [])
        if not total:
            readable = await self._readable.listed(caller, READ_INVOCATIONS, namespace=namespace)
        cut = namespaces is not None and len(concerned) > _WAITING_IN
        return WaitingRunList(
            approvals=await self._cards.of(shown, caller=caller),
            total=total,
            may_read=readable.namespaces is None or bool(readable.namespaces),
            next_cursor=cursor(_place(shown[-1]), question=question) if len(found) > limit else "",
            notes=[_MORE_NAMESPACES] if cut else readable.notes,
        )

    async def contracts(
        self, *, namespace: str = "", limit: int | None = None, after: str = "", caller: Caller
    ) -> ContractList:
        """The contracts in force, in name order: all, or a page; `after` is the cursor of the page before.

        Raises:
            InvalidInput: the cursor is that of another question.
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        arguments = {"namespace": namespace} if namespace else {}
        async with self._trail.record(
            "read.contracts", caller=caller, reference=_NO_INCIDENT, arguments=arguments
        ) as record:
            question = {"contracts": namespace or "*"}
            last = place_of(after, question=question)
            namespaces, notes, _ = await self._readable.listed(caller, READ_CONTRACTS, namespace=namespace)
            read = await self._review.contracts(caller=caller.name, namespaces=namespaces)
            known, unknown = ([each for each in part if namespace in ("", each.namespace)] for part in read)
            following = sorted((each for each in known if last is None or _name(each) > _name(last)), key=_name)
            shown = following[:limit]
            record.result = {"total": len(known)}
            counts = await self._rule_counts(caller) if shown else {}
            end = Place(shown[-1].name, shown[-1].namespace, "") if len(shown) < len(following) else None
            return ContractList(
                contracts=[_contract(each, counts=counts) for each in shown],
                total=len(known),
                next_cursor=cursor(end, question=question) if end is not None else "",
                notes=[*notes, *unknown_notes(unknown)],
            )

    async def _rule_counts(self, caller: Caller) -> Mapping[tuple[str, str], RuleCount]:
        """By contract and id of a rule, how often it counted lately in runs that the caller may read."""
        since = datetime.now(UTC) - timedelta(days=USE_DAYS)
        namespaces = await self._readable.of(caller, READ_INVOCATIONS)
        counts = await self._decisions.counts(namespaces=namespaces, since=since, at_most=_COUNTED)
        return {(each.contract, each.rule_id): each for each in counts}


def _name(contract: Contract | Place) -> tuple[str, str]:
    return contract.namespace, contract.name


def _place(run: Invocation) -> TimedRow:
    return TimedRow(run.created_at.astimezone(UTC).isoformat(), run.id)


def _summary(run: Invocation) -> InvocationSummary:
    answer = invocation_answer(run)
    same = set(InvocationSummary.model_fields) & set(type(answer).model_fields) - {"state"}
    dry, started = answer.dry_run, run.started_at is not None
    return InvocationSummary(
        **answer.model_dump(include=same),
        state=true_state(run.phase, dry=dry, started=started, outcome=run.outcome),
        target=visible(str(run.target)),
        remediation_id=run.remediation_id,
    )


def _contract(contract: Contract, *, counts: Mapping[tuple[str, str], RuleCount]) -> ContractAnswer:
    found = [(rule.id, counts.get((str(contract), rule.id))) for rule in contract.rules]
    return ContractAnswer(
        contract=str(contract),
        namespace=contract.namespace,
        name=contract.name,
        scope=contract.scope,
        rules=[rule.model_dump(by_alias=True, mode="json", exclude_defaults=True) for rule in contract.rules],
        use=[
            RuleUse(id=id_, matched=count.matched if count else 0, decided=count.decided if count else 0)
            for id_, count in found
        ],
    )
