"""Invocations: one run of one workflow version, from request to outcome.

Server, store and operator share these types: `NewInvocation` is what is asked for, `Invocation` what is stored. Ids,
trace ids and digests are made here, so that a repeated request and its trail agree. Rules only, no I/O.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from formulary_catalog.domain.alerts.reading import is_alert_id
from formulary_catalog.domain.audit.chain import MAX_TRACE_ID, OWN_TRACE
from formulary_catalog.domain.audit.sealing import Sealed
from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import InvalidInput

ID_PREFIX = "inv-"
_ID = re.compile(r"inv-[0-9a-f]{20}")
WAITING_SECONDS = 30.0
"""Up to this long a call waits for its run; a longer one is answered at once and followed by its id."""
MAX_TIMEOUT_SECONDS = 12 * 3600.0
NOT_KEPT = "(sensitive, not kept)"
"""Recorded instead of a sensitive value of a dry run: nothing reads it."""
UNPROVEN_USER = "unknown (no admission webhook reported the user)"
"""Who asked or approved where nobody proved it."""
UNPROVEN_USERS = frozenset({UNPROVEN_USER, "unknown (no admission webhook told who)"})
"""With the text that earlier releases stored."""
UNPROVEN = "unproven"
"""How such a requester is shown."""
_UNITS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d+)\s*([smh])")


class Phase(StrEnum):
    """Where a run stands, as `status.phase` of a WorkflowInvocation has it."""

    PENDING = "Pending"
    AWAITING_APPROVAL = "AwaitingApproval"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"
    HALTED = "Halted"

    @property
    def is_final(self) -> bool:
        return self in _FINAL

    @property
    def state(self) -> str:
        """The same in the words of the wire."""
        return _STATES[self]


_FINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT, Phase.CANCELLED, Phase.HALTED})
_STATES = {
    Phase.PENDING: "pending",
    Phase.AWAITING_APPROVAL: "awaiting_approval",
    Phase.RUNNING: "running",
    Phase.SUCCEEDED: "completed",
    Phase.FAILED: "failed",
    Phase.TIMED_OUT: "timed_out",
    Phase.CANCELLED: "cancelled",
    Phase.HALTED: "halted",
}
NO_RUN = "none"
"""The outcome of a trace without a run."""
OUTCOMES = {**{phase.state: phase.value for phase in Phase}, NO_RUN: ""}
"""What a trace may have come to, and the phase of its newest run."""


class Reason(StrEnum):
    """Why a run stands there, in one word for programs."""

    ACCEPTED = "Accepted"
    AWAITING_APPROVAL = "AwaitingApproval"
    STARTED = "Started"
    COMPLETED = "Completed"
    DRY_RUN = "DryRun"
    DEGRADED = "Degraded"
    DENIED = "Denied"
    REJECTED = "Rejected"
    INPUT_INVALID = "InputInvalid"
    WORKFLOW_NOT_FOUND = "WorkflowNotFound"
    NOT_INVOCABLE = "NotInvocable"
    ENGINE_UNAVAILABLE = "EngineUnavailable"
    NAMESPACE_NOT_FOUND = "NamespaceNotFound"
    NAMESPACE_NOT_OPTED_IN = "NamespaceNotOptedIn"
    NOT_PERMITTED = "NotPermitted"
    START_FAILED = "StartFailed"
    RUN_FAILED = "RunFailed"
    IMAGE_NOT_PULLED = "ImageNotPulled"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    CANCELLED = "Cancelled"
    HALTED = "Halted"


DRY_RUN, REFUSED = "dry_run", "refused"
"""What became of a run, where its phase alone would mislead: nothing was changed, nothing was started."""


VERIFIED = {"Helped": "helped", "NotHelped": "not_helped", "Relapsed": "relapsed"}
"""The same once it is known whether a run that ended well has helped."""


def true_state(phase: str, *, dry: bool, started: bool, outcome: str = "") -> str:
    """What became of a run, for who asks whether something was healed. `dry`: asked for, or made so by a rule."""
    state = Phase(phase)
    if state is Phase.SUCCEEDED and dry:
        return DRY_RUN
    if state is Phase.SUCCEEDED and outcome in VERIFIED:
        return VERIFIED[outcome]
    return REFUSED if state is Phase.FAILED and not started else state.state


class Source(StrEnum):
    """Who asked for a run: a caller of the server, or somebody who created the object in the cluster."""

    SERVER = "server"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTarget:
    """The object that is to be healed; empty where the incident does not name it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.kind, self.name) if part)

    def as_json(self) -> dict[str, str]:
        """The target as it is stored and as `spec.target` has it, without what is not known."""
        named = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {key: value for key, value in named.items() if value}

    @classmethod
    def from_json(cls, stored: Mapping[str, str]) -> "RunTarget":
        """The target that `as_json` wrote."""
        return cls(
            api_version=stored.get("apiVersion", ""),
            kind=stored.get("kind", ""),
            name=stored.get("name", ""),
            namespace=stored.get("namespace", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInvocation:
    """A checked request for a run. `values` are complete; `secret` holds those that must not be recorded.

    `salt` is kept with the run and nowhere else: without it a digest in the trail reveals nothing of a short secret.
    `idempotency_key` is the digest of the caller's key (`idempotency_digest`).

    `facts` is what the rules judge, as it was when the run was asked for: `domain.governance.gate.RunFacts` as JSON.
    `sealed` is what the incident demanded.
    """

    id: str
    source: Source
    namespace: str
    object_name: str
    object_uid: str = ""
    version_id: str
    workflow_namespace: str
    workflow_name: str
    workflow_version: str
    document: Mapping[str, Any] = field(repr=False)
    values: Mapping[str, Any] = field(default_factory=dict)
    secret: Mapping[str, Any] = field(default_factory=dict, repr=False)
    target: RunTarget = RunTarget()
    facts: Mapping[str, Any] = field(default_factory=dict)
    remediation_id: str = ""
    analysis: str = ""
    search_id: UUID | None = None
    requester: str
    timeout_seconds: float
    idempotency_key: str = ""
    dry_run: bool = False
    sealed: Sealed | None = None
    salt: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    @property
    def recorded_input(self) -> dict[str, Any]:
        """The input as it may be kept: secret values as digests, and those of a dry run not at all."""
        return {
            **self.values,
            **{
                name: NOT_KEPT if self.dry_run else digest(value, salt=self.salt) for name, value in self.secret.items()
            },
        }

    def request_hash(self, *, salt: str) -> str:
        """Hash of this request under the salt of one that was kept: another request with the same idempotency
        key is a mistake of the caller."""
        secret = dict.fromkeys(self.secret) if self.dry_run else dict(self.secret)
        asked = [self.version_id, dict(self.values), secret, self.timeout_seconds, self.dry_run]
        asked += [self.namespace, self.remediation_id, self.target.as_json()]
        return hashlib.sha256(f"{salt}\0{canonical_json(asked)}".encode()).hexdigest()

    @property
    def trace_id(self) -> str:
        """The chain into which all that happens to the run is written."""
        return trace_id(remediation_id=self.remediation_id, search_id=self.search_id, fallback=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A run as it is stored. `revision` grows with every change; times are in UTC."""

    id: str
    source: Source
    namespace: str
    object_name: str
    object_uid: str
    workflow_namespace: str
    workflow_name: str
    workflow_version: str
    version_id: str
    document: Mapping[str, Any] = field(repr=False)
    input: Mapping[str, Any] = field(repr=False)
    target: RunTarget
    facts: Mapping[str, Any] = field(repr=False)
    remediation_id: str
    analysis: str
    search_id: UUID | None
    requester: str
    timeout_seconds: float
    idempotency_key: str
    trace_id: str
    dry_run: bool
    degraded: bool
    phase: Phase
    reason: str
    message: str
    decision: Mapping[str, Any] = field(repr=False)
    outputs: Mapping[str, Any] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)
    reference: Mapping[str, Any] = field(repr=False)
    revision: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    halted: str = ""
    """Why it was halted; it must be ended, and it stays ended when the halt is lifted."""
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What would run, as the operator rendered it last: `digest` and its parts; empty while it has not."""
    outcome: str = ""
    """Whether it helped, as `domain.runs.outcome` decides it; empty until then, and for what changed nothing."""
    feedback: str = ""
    """What the verification saw, once the outcome is known."""
    verify_at: datetime | None = None
    """When the outcome is decided; None for a run that is not over, or that changed nothing."""
    observed: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What was seen of its target, as `domain.runs.outcome.TargetWatch` has it."""

    @property
    def awaits_outcome(self) -> bool:
        """Whether its outcome is still to be decided."""
        return self.verify_at is not None and not self.outcome

    @property
    def shown_requester(self) -> str:
        """Who asked for the run, or that nobody proved it."""
        return UNPROVEN if self.requester in UNPROVEN_USERS else self.requester

    @property
    def content_digest(self) -> str:
        """Digest of the content; empty while it is not known."""
        return str(self.content.get("digest", ""))

    @property
    def is_of_target(self) -> bool:
        """Whether labels of its target constrain it: it was asked for with a target or an alert, and no AIAnalysis."""
        is_of_analysis = bool(self.analysis or (self.remediation_id and not is_alert_id(self.remediation_id)))
        return bool(self.target.name) and not is_of_analysis

    @property
    def runs_for_real(self) -> bool:
        """Whether it may change anything."""
        return not self.dry_run and not self.degraded

    @property
    def duration_seconds(self) -> float | None:
        """How long it ran; None unless it began and ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


def is_invocation_id(text: str) -> bool:
    """Whether the text has the form of an invocation id."""
    return _ID.fullmatch(text) is not None


def require_invocation_id(text: str) -> None:
    """Raises InvalidInput for what cannot be the id of a run."""
    if not is_invocation_id(text):
        raise InvalidInput(
            f"invocation id {text[:60]!r} is not inv- and 20 hex digits; copy it from the answer of `formulary invoke`",
            field="invocation_id",
        )


def id_of_request(*, caller: str, idempotency_key: str) -> str:
    """The id of a run that a caller asks for: the same for the same key, so that a repeat is the same run."""
    if not idempotency_key:
        return ID_PREFIX + secrets.token_hex(10)
    return ID_PREFIX + hashlib.sha256(canonical_json(["request", caller, idempotency_key]).encode()).hexdigest()[:20]


def idempotency_digest(*, caller: str, idempotency_key: str) -> str:
    """What is kept of a caller's key, which may hold anything; empty for none."""
    if not idempotency_key:
        return ""
    return "sha256:" + hashlib.sha256(f"{caller}\0{idempotency_key}".encode()).hexdigest()


def id_of_object(uid: str) -> str:
    """The id of a run that somebody asks for by creating an object; its uid is never used again."""
    return ID_PREFIX + hashlib.sha256(canonical_json(["object", uid]).encode()).hexdigest()[:20]


def trace_id(*, remediation_id: str = "", search_id: UUID | None = None, fallback: str) -> str:
    """The chain that an event belongs to: its incident's, else its search's, else one of its own.

    An incident whose id cannot name a chain has none, nor has one whose id would lead into the chain of somebody's
    search or run: the author of an AIAnalysis chooses that id.
    """
    possible = len(remediation_id) <= MAX_TRACE_ID and storable(remediation_id)
    if remediation_id and possible and not remediation_id.startswith(OWN_TRACE):
        return remediation_id
    return OWN_TRACE + (search_id.hex if search_id is not None else fallback.removeprefix(ID_PREFIX))


def digest(value: Any, *, salt: str) -> str:
    """Digest of a value that must not be recorded. `salt` keeps equal values of different runs apart."""
    return "sha256:" + hashlib.sha256(f"{salt}\0{canonical_json(value)}".encode()).hexdigest()


def duration_seconds(text: str) -> float | None:
    """A duration such as `10m` or `1h30m` in seconds; None for what is no duration."""
    parts = _DURATION.findall(text.strip().lower())
    if not parts or "".join(number + unit for number, unit in parts) != re.sub(r"\s", "", text.strip().lower()):
        return None
    return float(sum(int(number) * _UNITS[unit] for number, unit in parts))
