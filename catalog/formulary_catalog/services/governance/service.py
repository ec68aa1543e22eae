"""Judgements on actions of any kind: gate, contract, verdict, and the proof that their trace is whole."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.domain.governance.actions import enforce, gate_actions
from formulary_catalog.domain.governance.verdict import verdict, verdict_markdown
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import NotFound
from formulary_catalog.kernel.incidents import ContextResolver
from formulary_catalog.kernel.trail import Record, Trail, trace_of
from formulary_catalog.services.governance.answers import (
    EnforceAnswer,
    GateAnswer,
    ReplayAnswer,
    ReplayChecks,
    ReplayReport,
    VerdictAnswer,
)
from formulary_catalog.services.governance.reading import (
    read_actions,
    read_contract,
    read_enforce_result,
    read_gate_report,
)
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS
from formulary_catalog.store.audit.events import TraceStore

_MAX_SHOWN = 60


class GovernanceService:
    """Judges and remembers: every call leaves an event in a trace, refused ones too. None of them needs an incident.

    All methods raise `ContextError` and `NotAllowed` for an incident that is named and may not be used, `NotFound` for
    a `trace_id` that is not the caller's, `InvalidInput` for what cannot be read, `Unavailable` for a database that
    does not answer.
    """

    def __init__(
        self,
        *,
        trail: Trail,
        traces: TraceStore,
        contexts: ContextResolver,
        harmless: frozenset[str] = HARMLESS_ENVIRONMENTS,
    ) -> None:
        self._trail = trail
        self._traces = traces
        self._contexts = contexts
        self._harmless = harmless

    async def gate(
        self,
        *,
        task: str,
        reference: ContextReference,
        caller: Caller,
        context: Mapping[str, Any] | None = None,
        proposed_actions: Sequence[Any] = (),
        trace_id: str = "",
    ) -> GateAnswer:
        """The risks of actions. The environment of the incident counts, whatever the given context says."""
        given = {"task": task, "context": context, "proposed_actions": proposed_actions}
        async with self._recorded("gate", given, trace_id=trace_id, reference=reference, caller=caller) as (
            record,
            incident,
        ):
            known = [context or {}, {"environment": incident.environment if incident is not None else ""}]
            report = gate_actions(
                task,
                context={"known": known},
                actions=read_actions(proposed_actions, name="proposed_actions"),
                harmless=self._harmless,
            )
            record.result = {"gate_report": report.as_json()}
            return GateAnswer(gate_report=report, trace_id=record.trace_id)

    async def enforce(
        self,
        *,
        contract: Mapping[str, Any],
        actions: Sequence[Any],
        reference: ContextReference,
        caller: Caller,
        trace_id: str = "",
    ) -> EnforceAnswer:
        """What a contract that comes with the call says to actions."""
        given = {"contract": contract, "actions": actions}
        async with self._recorded("enforce", given, trace_id=trace_id, reference=reference, caller=caller) as (
            record,
            _,
        ):
            result = enforce(
                read_contract(contract),
                read_actions(actions, name="actions"),
                caller=caller.name,
                now=datetime.now(UTC),
            )
            record.result = {"enforce_result": result.as_json()}
            return EnforceAnswer(enforce_result=result, trace_id=record.trace_id)

    async def verdict(
        self,
        *,
        gate_report: Mapping[str, Any],
        reference: ContextReference,
        caller: Caller,
        enforce_result: Mapping[str, Any] | None = None,
        trace_id: str = "",
    ) -> VerdictAnswer:
        """Gate and contract in one decision."""
        given = {"gate_report": gate_report, "enforce_result": enforce_result}
        async with self._recorded("verdict", given, trace_id=trace_id, reference=reference, caller=caller) as (
            record,
            _,
        ):
            decided = verdict(
                read_gate_report(gate_report),
                read_enforce_result(enforce_result) if enforce_result is not None else None,
            )
            record.result = {"verdict": decided.as_json()}
            return VerdictAnswer(verdict=decided, verdict_md=verdict_markdown(decided), trace_id=record.trace_id)

    async def replay(self, *, trace_id: str, reference: ContextReference, caller: Caller) -> ReplayAnswer:
        """Whether a trace is as it was written; this call joins it afterwards."""
        async with self._recorded("replay", {}, trace_id=trace_id, reference=reference, caller=caller) as (record, _):
            found = await self._traces.verify(record.trace_id)
            if not found.event_count and found.passed:
                raise _not_found("replay", trace_id)
            report = ReplayReport(
                status="PASS" if found.passed else "FAIL",
                passed=found.passed,
                event_count=found.event_count,
                error_count=found.error_count,
                checks=ReplayChecks(**found.checks),
            )
            record.result = {"replay": report.model_dump(mode="json")}
            return ReplayAnswer(replay=report, trace_id=record.trace_id)

    @asynccontextmanager
    async def _recorded(
        self,
        tool: str,
        given: Mapping[str, Any],
        *,
        trace_id: str,
        reference: ContextReference,
        caller: Caller,
    ) -> AsyncIterator[tuple[Record, RequestContext | None]]:
        """The record of a call, in the trace it belongs to, and its incident if it names one."""
        arguments = {name: value for name, value in {**given, "trace_id": trace_id}.items() if value}
        async with self._trail.record(
            f"governance.{tool}", caller=caller, reference=reference, arguments=arguments
        ) as record:
            incident = await self._contexts.resolve(reference, caller=caller) if reference else None
            record.note_incident(incident)
            own = trace_of(record)
            if trace_id not in ("", own) and not await self._began(trace_id, caller=caller):
                raise _not_found(tool, trace_id)
            record.trace_id = trace_id or own
            yield record, incident

    async def _began(self, trace_id: str, *, caller: Caller) -> bool:
        """Whether the caller may go on with a trace: it began it, and it is no incident's.

        An incident's is open to calls of that incident alone, no matter who began it.
        """
        return trace_id.startswith(OWN_TRACE) and await self._traces.begun_by(trace_id) == caller.name


def _not_found(tool: str, trace_id: str) -> NotFound:
    shown = trace_id if len(trace_id) <= _MAX_SHOWN else f"{trace_id[:_MAX_SHOWN]}…"
    # Only a replay needs a trace that is there.
    otherwise = "" if tool == "replay" else ", or leave it out to begin a new one"
    return NotFound(
        f"trace {shown!r} is not found among yours; give the trace_id of an earlier answer{otherwise}; the trace of an "
        "incident is open to calls of that incident alone",
        reference=trace_id,
    )
