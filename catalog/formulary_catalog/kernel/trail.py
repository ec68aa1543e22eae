"""Records every call on the catalog as one event of the trail, before its answer leaves; failures too.

The services open a record around each call and fill it on the way. If the event cannot be written, the call fails:
an answer that nobody can account for is not given.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import structlog
from structlog.contextvars import bind_contextvars

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.audit.chain import EXPLANATION, TRIAL
from formulary_catalog.domain.audit.sealing import seal
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.run import trace_id
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.errors import FormularyError, Unavailable
from formulary_catalog.store.audit.events import TraceEvent, TraceStore

OK = "ok"
_PATIENCE_WITH_THE_SILENT = 0.1
"""Seconds for the row of a call to which the database did not answer: the caller has waited almost 2 s already."""
_PATIENCE_WITH_THE_GONE = 0.5
"""Seconds for the row of a call that was cancelled: its caller waits for its end."""
_READ_ONLY = {"decision": "ALLOW", "class": "read-only"}
"""What the gate says of a call that changes nothing but the trail."""
_APART = frozenset({TRIAL, EXPLANATION})
"""No story grows because people look into it, refused or not."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Record:
    """What the running call has to say about itself so far. `search_id` is that of a search of the same caller.

    `trace_id` is the chain it goes to; empty for the one that follows from the rest. `context` is sealed, and so are
    `custom_labels`: those of a caller that may give them. `constraints` is what narrowed a search.
    """

    trace_id: str = ""
    remediation_id: str = ""
    analysis: str = ""
    target: str = ""
    search_id: UUID | None = None
    mode: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    constraints: Mapping[str, Any] = field(default_factory=dict)
    context: RequestContext | None = field(default=None, repr=False)
    custom_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def claimed(cls, reference: ContextReference, *, search_id: UUID | None = None) -> "Record":
        """A record of what a call says of itself, true or not."""
        return cls(
            remediation_id=next(iter(reference.ids), ""),
            analysis=reference.analysis,
            target=str(reference.target or ""),
            search_id=search_id,
        )

    def note_incident(self, context: RequestContext | None) -> None:
        """Note the incident of the call: events name it, and what it demands is sealed."""
        if context is not None:
            self.context = context
            self.remediation_id = context.remediation_id
            self.analysis = context.analysis
            self.target = context.target if not context.analysis else ""


class Trail:
    """Wraps calls so that none ends without an event in the trail. `strict_keys` are those of the settings."""

    def __init__(self, traces: TraceStore, *, strict_keys: frozenset[str]) -> None:
        self._traces = traces
        self._strict_keys = strict_keys

    @asynccontextmanager
    async def record(
        self,
        action: str,
        *,
        caller: Caller,
        reference: ContextReference,
        arguments: Mapping[str, Any],
        search_id: UUID | None = None,
    ) -> AsyncIterator[Record]:
        """Record the call inside; its error if it fails.

        Raises:
            Unavailable: the event could not be written, so the answer must not leave.
        """
        started = time.perf_counter()
        record = Record.claimed(reference, search_id=search_id)

        def event(outcome: str) -> TraceEvent:
            return self._event(
                action,
                caller=caller,
                record=record,
                arguments=arguments,
                outcome=outcome,
                duration_ms=round((time.perf_counter() - started) * 1000, 3),
                gate=_READ_ONLY,
            )

        try:
            yield record
        except Exception as error:
            record.result = {"error": str(error) if isinstance(error, FormularyError) else "internal error"}
            patience = _PATIENCE_WITH_THE_SILENT if isinstance(error, Unavailable) else None
            await self._append_after_failure(event(type(error).__name__), patience=patience)
            raise
        except asyncio.CancelledError:
            # The caller has gone or its time is up; what it asked still belongs into the trail.
            record.result = {"error": "given up before it was done"}
            await asyncio.shield(self._append_after_failure(event("Cancelled"), patience=_PATIENCE_WITH_THE_GONE))
            raise
        await self._traces.append(event(OK))

    async def refused(
        self,
        action: str,
        *,
        caller: Caller,
        reference: ContextReference,
        arguments: Mapping[str, Any],
        error: FormularyError,
    ) -> None:
        """Record a call that was refused before it began."""
        record = Record.claimed(reference)
        record.result = {"error": str(error)}
        await self._append_after_failure(
            self._event(
                action,
                caller=caller,
                record=record,
                arguments=arguments,
                outcome=type(error).__name__,
                duration_ms=0.0,
                gate={},
            )
        )

    async def _append_after_failure(self, event: TraceEvent, *, patience: float | None = None) -> None:
        """The call fails anyway, with its own error; that the trail missed it goes to the log."""
        try:
            async with asyncio.timeout(patience):
                await self._traces.append(event)
        except (Unavailable, TimeoutError):
            _log.error("audit_event_lost", audited_action=event.kind, outcome=event.payload["outcome"])

    def _event(
        self,
        action: str,
        *,
        caller: Caller,
        record: Record,
        arguments: Mapping[str, Any],
        outcome: str,
        duration_ms: float,
        gate: Mapping[str, str],
    ) -> TraceEvent:
        said = {
            "action": action,
            "outcome": outcome,
            "duration_ms": duration_ms,
            "remediation_id": record.remediation_id,
            "analysis": record.analysis,
            "target": record.target,
            "mode": record.mode,
            "arguments": arguments,
            "constraints": record.constraints,
            "result": record.result,
            "gate": gate,
        }
        chain = record.trace_id or trace_of(record, apart=action in _APART)
        log_trace(chain)
        return TraceEvent(
            trace_id=chain,
            kind=action,
            caller=caller.name,
            payload={name: value for name, value in said.items() if value not in ("", {})},
            search_id=record.search_id,
            sealed=seal(record.context, strict_keys=self._strict_keys, custom_labels=record.custom_labels),
        )


def log_trace(trace: str) -> None:
    """Have the lines that the running call logs from here on name its trace."""
    bind_contextvars(trace_id=trace)


def trace_of(record: Record, *, apart: bool = False) -> str:
    """The chain of a call: that of its incident, claimed or not, unless `apart`; else of its search, or a new one."""
    incident = "" if apart else record.remediation_id
    return trace_id(remediation_id=incident, search_id=record.search_id, fallback=uuid4().hex)
