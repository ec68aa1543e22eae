"""Every call on the catalog leaves one audit row, written before its answer leaves; failures too."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.analysis import RequestContext
from formulary_catalog.domain.request import ContextReference
from formulary_catalog.errors import FormularyError, Unavailable
from formulary_catalog.store.audit import AuditEvent, AuditLog

OK = "ok"
_PATIENCE_WITH_THE_SILENT = 0.1
"""Seconds for the row of a call to which the database did not answer: the caller has waited almost 2 s already."""
_PATIENCE_WITH_THE_GONE = 0.5
"""Seconds for the row of a call that was cancelled: whoever cancelled it waits for its end."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Record:
    """What the running call has to say about itself so far."""

    remediation_id: str = ""
    analysis: str = ""
    mode: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)

    def belongs_to(self, context: RequestContext | None) -> None:
        """Note the incident, by name only."""
        if context is not None:
            self.remediation_id = context.remediation_id
            self.analysis = f"{context.namespace}/{context.name}"


class Trail:
    """Wraps calls so that none ends without a row."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

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
            Unavailable: the row could not be written, so the answer must not leave.
        """
        started = time.perf_counter()
        record = Record(
            remediation_id=reference.remediation_id or reference.meta_remediation_id, analysis=reference.analysis
        )

        def event(outcome: str) -> AuditEvent:
            return AuditEvent(
                action=action,
                caller=caller.name,
                outcome=outcome,
                duration_ms=round((time.perf_counter() - started) * 1000, 3),
                remediation_id=record.remediation_id,
                analysis=record.analysis,
                search_id=search_id,
                mode=record.mode,
                arguments=arguments,
                result=record.result,
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
        await self._log.append(event(OK))

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
        await self._append_after_failure(
            AuditEvent(
                action=action,
                caller=caller.name,
                outcome=type(error).__name__,
                duration_ms=0.0,
                remediation_id=reference.remediation_id or reference.meta_remediation_id,
                analysis=reference.analysis,
                arguments=arguments,
                result={"error": str(error)},
            )
        )

    async def _append_after_failure(self, event: AuditEvent, *, patience: float | None = None) -> None:
        """The call fails anyway, with its own error; that the trail missed it goes to the log."""
        try:
            async with asyncio.timeout(patience):
                await self._log.append(event)
        except (Unavailable, TimeoutError):
            _log.error("audit_event_lost", audited_action=event.action, outcome=event.outcome)
