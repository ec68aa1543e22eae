"""How a run stands, in the words of invocations."""

from datetime import datetime

from formulary_catalog.domain.invocation import Phase, Reason
from formulary_operator.engines.plan import Observation

MAX_MESSAGE = 2000


def running(*, started_at: datetime | None, message: str = "") -> Observation:
    """A run that has not ended."""
    return Observation(phase=Phase.RUNNING, reason=Reason.STARTED, message=message[:MAX_MESSAGE], started_at=started_at)


def succeeded(*, started_at: datetime | None, finished_at: datetime | None, message: str = "") -> Observation:
    """A run that has done what it should."""
    return Observation(
        phase=Phase.SUCCEEDED,
        reason=Reason.COMPLETED,
        message=message[:MAX_MESSAGE],
        started_at=started_at,
        finished_at=finished_at,
    )


def failed(
    *, timed_out: bool, started_at: datetime | None, finished_at: datetime | None, message: str = ""
) -> Observation:
    """A run that has ended without success."""
    return Observation(
        phase=Phase.TIMED_OUT if timed_out else Phase.FAILED,
        reason=Reason.DEADLINE_EXCEEDED if timed_out else Reason.RUN_FAILED,
        message=message[:MAX_MESSAGE],
        started_at=started_at,
        finished_at=finished_at,
    )
