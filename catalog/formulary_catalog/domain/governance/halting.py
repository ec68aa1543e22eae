"""The emergency stop: a halt ends every run that is not over, and lets none begin until it is lifted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from formulary_catalog.domain.governance.contract import Contract, Effect
from formulary_catalog.domain.text import one_line
from formulary_catalog.errors import InvalidInput

MAX_REASON = 300
SERVER = "server"
"""`Halt.source` of what was said over a server."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """A halt in force. `namespace` is empty for everywhere; `contract` names the one that says it, if one does.

    `source` is `server` for one that a person said over a server, which lifts it again.
    """

    namespace: str
    contract: str
    reason: str
    by: str
    at: datetime
    trace_id: str
    source: str = "database"

    @property
    def where(self) -> str:
        """For what it holds."""
        return f"in namespace {self.namespace}" if self.namespace else "everywhere"

    @property
    def way_out(self) -> str:
        """How it is lifted."""
        if self.contract:
            return f"remove the HALT rule of contract {self.contract}"
        namespace = f" --namespace {self.namespace}" if self.namespace else ""
        return f"`formulary resume{namespace}{' --url SERVER' if self.source == SERVER else ''}`"

    def __str__(self) -> str:
        since = self.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"runs are halted {self.where} since {since} by {self.by}: {one_line(self.reason)[:MAX_REASON]}"


def require_reason(reason: str) -> None:
    """Raises InvalidInput for a reason that says nothing, or too much to be shown wherever somebody is stopped."""
    if not reason.strip() or len(reason) > MAX_REASON:
        said = f"has {len(reason)} characters" if reason.strip() else "is empty"
        raise InvalidInput(f"the reason {said}; say why in 1 to {MAX_REASON} characters", field="reason")


def require_namespace(namespace: str) -> None:
    """Raises InvalidInput for what no namespace is called; empty is everywhere. A misspelt one would halt nothing."""
    if namespace and _NAMESPACE.fullmatch(namespace) is None:
        raise InvalidInput(
            f"namespace {namespace[:80]!r} is not the name of one; give at most 63 lower-case letters, digits and "
            "hyphens, or omit it for all namespaces",
            field="namespace",
        )


def unknown_namespace(namespace: str) -> str:
    """What is said of a namespace that is halted and of which nothing is known: it may be misspelt."""
    return f"no workflow, run or incident of namespace {namespace!r} is known; check the spelling"


def halt_reason(contract: Contract) -> str:
    """Why a contract halts; empty for one that does not."""
    halting = [rule for rule in contract.rules if rule.effect is Effect.HALT]
    return "; ".join(one_line(rule.rationale).strip() or f"rule {rule.id}" for rule in halting)


def halted_message(halts: Sequence[Halt]) -> str:
    """Message of a run that may not begin."""
    reasons = "; ".join(map(str, halts))
    return f"Halted: {reasons}. Nothing is run until that is lifted; ask for another run then."
