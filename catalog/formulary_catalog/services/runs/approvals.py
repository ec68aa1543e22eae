"""Which runs wait for a person, for agents that are to tell somebody. Nothing here approves anything.

A caller reads its own runs, and those of the namespaces in which it may `get workflowinvocations`. Runs of workflows
that it does not see, or that the incident of the call excludes, are not among them.
"""

from collections.abc import Collection
from datetime import timedelta

from formulary_catalog.domain.access import READ_INVOCATIONS, Caller
from formulary_catalog.domain.answers.browsing import PendingApproval, PendingApprovals
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.runs.admission_decision import APPROVAL_HOURS
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.text import shortened
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.requests import ApprovalsRequest
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import left_out
from formulary_catalog.kernel.visibility import namespaces_with
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
