"""Which runs wait for a person, for agents that are to tell somebody. Nothing here approves anything.

A caller reads its own runs, and those of the namespaces in which it may `get workflowinvocations`. Runs of workflows
that it does not see, or that the incident of the call excludes, are not among them.

`services.runs.reading` makes the cards of waiting runs with it, each with its alert and the agent's reasoning. The
trace of an incident takes the right to `get aianalyses` in its namespaces, as on the incident's own page; who may only
read runs gets the card without that part.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta

from formulary_catalog.domain.access import APPROVE, READ_INVOCATIONS, USE_CONTEXTS, Caller
from formulary_catalog.domain.answers.browsing import PendingApproval, PendingApprovals
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.reading import AgentChoice, WaitingRun
from formulary_catalog.domain.runs.admission_decision import APPROVAL_HOURS
from formulary_catalog.domain.runs.card import agent_choice, waiting_run
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.text import shortened
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.requests import ApprovalsRequest
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import left_out, may_in_all
from formulary_catalog.kernel.visibility import namespaces_with
from formulary_catalog.store.audit.listing import TraceLister
from formulary_catalog.store.incidents import IncidentReader
from formulary_catalog.store.runs.reviewing import ReviewReader

_LOOKED_THROUGH = 1000
"""Of so many runs those are found that the incident allows."""
_SHOWN_REASON = 150
_SHOWN_NAMESPACES = 5
_HOW = "a person decides, with `formulary approve INVOCATION_ID --reason …`; tell them, and do not ask again"


class WaitingRuns:
    """Lists them; every call leaves an event in the trail."""

    def __init__(self, parts: CatalogParts) -> None:
        self._review = ReviewReader(parts.database)
        self._workflows = parts.workflows
        self._trail, self._visibility, self._finder = parts.trail, parts.visibility, parts.finder

    async def pending(
        self,
        request: ApprovalsRequest,
        *,
        context: ContextReference,
        caller: Caller,
        browsing: bool = False,
    ) -> PendingApprovals:
        """The runs that wait, the oldest first; under an incident those of that incident.

        Raises:
            ContextError, NotAllowed, Unavailable: as `Visibility.of`.
        """
        namespace = request.namespace
        arguments = {"namespace": namespace} if namespace else {}
        async with self._trail.record(
            "read.approvals", caller=caller, reference=context, arguments=arguments
        ) as record:
            scope = await self._visibility.of(context, caller=caller, record=record, browsing=browsing)
            concerned = scope.concerned | frozenset(filter(None, [namespace]))
            reviewed = await namespaces_with(caller, READ_INVOCATIONS, among=concerned)
            runs, _ = await self._review.waiting(caller=caller.name, namespaces=reviewed, limit=_LOOKED_THROUGH)
            constraints = self._finder.constraints(scope)
            readable = await self._workflows.readable({run.version_id for run in runs}, namespaces=scope.namespaces)
            everywhere = [
                run
                for run in runs
                if run.version_id in readable
                and scope.remediation_id in ("", run.remediation_id)
                and self._finder.allowed(run, constraints) is not None
            ]
            waiting = [run for run in everywhere if namespace in ("", run.namespace)]
            notes = [_HOW] if waiting else _nothing_waits(namespace, others={run.namespace for run in everywhere})
            if not waiting and reviewed is not None and not reviewed:
                notes.append(left_out(READ_INVOCATIONS, namespaces=concerned))
            record.result = {"total": len(waiting)}
            return PendingApprovals(
                approvals=[_short(pending_approval(run)) for run in waiting[: request.limit]],
                total=len(waiting),
                notes=notes,
            )


def pending_approval(run: Invocation) -> PendingApproval:
    """A run that waits, as everybody who may know of it sees it."""
    return PendingApproval(
        invocation_id=run.id,
        workflow_id=f"{run.workflow_namespace}/{run.workflow_name}",
        version=run.workflow_version,
        namespace=run.namespace,
        target=visible(str(run.target)),
        requester=visible(run.shown_requester),
        reason=visible(run.message),
        asked_at=moment(run.created_at),
        waits_until=moment(run.created_at + timedelta(hours=APPROVAL_HOURS)),
    )


def _nothing_waits(namespace: str, *, others: Collection[str]) -> list[str]:
    """What is said of a namespace; `others` are those in which something waits that may be known."""
    if not namespace:
        return []
    there = f"; runs wait in {', '.join(sorted(others)[:_SHOWN_NAMESPACES])}" if others else ""
    return [f"no run that you may see waits in namespace {namespace!r}{there}; check its name, or leave it out"]


def _short(approval: PendingApproval) -> PendingApproval:
    """As a model reads it."""
    return approval.model_copy(update={"reason": shortened(approval.reason, limit=_SHOWN_REASON)})


class RunCards:
    """Makes the cards of runs for a caller."""

    def __init__(self, parts: CatalogParts) -> None:
        self._parsed, self._traces = parts.parsed, parts.traces
        self._lister = TraceLister(parts.database)
        self._incidents = IncidentReader(parts.database)

    async def of(self, runs: Sequence[Invocation], *, caller: Caller) -> list[WaitingRun]:
        """One for each run.

        Raises:
            Unavailable: the database does not answer, or the caller's rights cannot be checked.
        """
        return [await self._card(run, caller=caller) for run in runs]

    async def _card(self, run: Invocation, *, caller: Caller) -> WaitingRun:
        parsed = self._parsed.get(run.version_id, run.document)
        return waiting_run(
            run,
            pending=pending_approval(run),
            workflow=parsed.workflow if parsed is not None else None,
            choice=await self._choice(run, caller=caller),
            may_approve=await caller.access.allows(APPROVE, namespace=run.namespace),
        )

    async def _choice(self, run: Invocation, *, caller: Caller) -> AgentChoice | None:
        """What the trace says of it; None if the caller may not read the trace."""
        namespaces = await self._lister.namespaces(run.trace_id)
        if not await may_in_all(caller, USE_CONTEXTS, namespaces):
            return None
        known = await self._incidents.named([run.analysis], namespaces=frozenset(namespaces))
        selection = await self._traces.selection(run.trace_id, version_id=run.version_id)
        search = await self._traces.search(run.trace_id, search_id=run.search_id) if run.search_id else None
        return agent_choice(
            run.version_id,
            incident=known.get(run.analysis),
            selection=Recorded(selection.payload if selection is not None else None),
            chosen_by=selection.caller if selection is not None else "",
            search=Recorded(search.payload if search is not None else None),
        )
