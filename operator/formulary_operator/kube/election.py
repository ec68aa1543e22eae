"""Who may lead: the rules of a coordination.k8s.io Lease, as client-go has them (`tools/leaderelection`).

Clocks of different machines are never compared. A holder counts as alive until its record has not changed for the
duration of the lease by our own monotonic clock, counted from when we first saw the record as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from formulary_operator.api.names import Json

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The spec of a Lease, and since when, in monotonic seconds, we have seen it like that."""

    spec: Spec
    since: float


def observed(spec: Spec, *, before: Observed | None, now: float) -> Observed:
    """What is known after reading a spec at `now`, in monotonic seconds."""
    return before if before is not None and before.spec == spec else Observed(spec=spec, since=now)


def holder(spec: Spec) -> str:
    """Who holds the lease; empty if it was given back."""
    return str(spec.get("holderIdentity") or "")


def seconds_until_claim(seen: Observed, *, identity: str, now: float, seconds: int) -> float:
    """Seconds until the lease may be claimed; 0 if now.

    `seconds` is how long a record without a duration of its own is honoured.
    """
    if holder(seen.spec) in ("", identity):
        return 0
    return max(0, seen.since + (_positive(seen.spec.get("leaseDurationSeconds")) or seconds) - now)


def claimed(spec: Spec, *, identity: str, seconds: int, at: datetime) -> Json:
    """The spec with which `identity` takes the lease over, or renews it; `at` is the time on the wall."""
    ours = holder(spec) == identity
    transitions = _positive(spec.get("leaseTransitions"))
    return {
        **spec,
        "holderIdentity": identity,
        "leaseDurationSeconds": seconds,
        "acquireTime": spec.get("acquireTime") if ours else micro_time(at),
        "renewTime": micro_time(at),
        "leaseTransitions": transitions if ours or not spec else transitions + 1,
    }


def released(spec: Spec, *, at: datetime) -> Json:
    """The spec with which its holder gives the lease back."""
    return {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(at)}


def micro_time(at: datetime) -> str:
    """A time as the Kubernetes API writes it, in microseconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _positive(value: object) -> int:
    """Anybody with the right to may write anything into a Lease; what is no number counts as none."""
    return value if isinstance(value, int) and value > 0 else 0
