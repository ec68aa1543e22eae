"""A request for a run as a caller sends it, checked once for all edges.

The edges build it, `services/runs/preparation` reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formulary_catalog.domain.runs.run import MAX_TIMEOUT_SECONDS, WAITING_SECONDS, idempotency_digest
from formulary_catalog.errors import InvalidInput

MIN_TIMEOUT_MS = 1000
MAX_TIMEOUT_MS = int(MAX_TIMEOUT_SECONDS * 1000)
MAX_WAIT_MS = int(WAITING_SECONDS * 1000)
MAX_KEY_LENGTH = 253
MAX_REASON_LENGTH = 1000
_GRACE_SECONDS = 2.0
"""What a call waits beyond its timeout, so that it can report how the run ended by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationRequest:
    """One run that is asked for. Without `timeout_ms` the deadline comes from how long the workflow says it takes."""

    workflow_id: str
    input: Mapping[str, Any] = field(default_factory=dict, repr=False)
    version: str = ""
    timeout_ms: int | None = None
    idempotency_key: str = ""
    dry_run: bool = False
    search_id: str = ""

    @property
    def waits_seconds(self) -> float:
        """How long the call waits for the run; 0 where it is answered at once."""
        if self.timeout_ms is None:
            return WAITING_SECONDS
        seconds = self.timeout_ms / 1000
        return seconds + _GRACE_SECONDS if seconds <= WAITING_SECONDS else 0.0

    def recorded(self, *, caller: str) -> dict[str, Any]:
        """The request as the trail may keep it if it came to nothing: of the input names, of the key a digest."""
        return {
            "workflow_id": self.workflow_id,
            "version": self.version,
            "input": sorted(self.input),
            "timeout_ms": self.timeout_ms,
            "idempotency_key": idempotency_digest(caller=caller, idempotency_key=self.idempotency_key),
            "dry_run": self.dry_run,
            "search_id": self.search_id,
        }

    def timeout_seconds(self, *, most: float) -> float | None:
        """The timeout asked for; None where none is. `most` is what is allowed.

        Raises:
            InvalidInput: it is out of bounds.
        """
        if self.timeout_ms is None:
            return None
        if not MIN_TIMEOUT_MS <= self.timeout_ms <= most * 1000:
            raise InvalidInput(
                f"timeout_ms {self.timeout_ms} is out of bounds; give {MIN_TIMEOUT_MS} to {most * 1000:.0f}",
                field="timeout_ms",
            )
        return self.timeout_ms / 1000
