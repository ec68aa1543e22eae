"""The cards of runs that wait: each with its alert and the agent's reasoning, for callers who may read its trace.

`services.runs.reading` lists with it. The trace of an incident takes the right to `get aianalyses` in its namespaces,
as on the incident's own page; who may only read runs gets the card without that part.
"""

from collections.abc import Sequence

from formulary_catalog.domain.access import APPROVE, USE_CONTEXTS, Caller
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.reading import AgentChoice, WaitingRun
from formulary_catalog.domain.runs.card import agent_choice, waiting_run
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.readable import may_in_all
from formulary_catalog.services.runs.approvals import pending_approval
from formulary_catalog.store.audit.listing import TraceLister
from formulary_catalog.store.incidents import IncidentReader


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
