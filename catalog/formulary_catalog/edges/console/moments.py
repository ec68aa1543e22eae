"""Times as people read them beside what happened: so long ago, or so long from now."""

from datetime import UTC, datetime

_STEPS = ((60, 1, "second"), (3600, 60, "minute"), (48 * 3600, 3600, "hour"), (60 * 86400, 86400, "day"))
_MONTH = 30.44 * 86400
_NOW = 5
"""Seconds that are no difference."""


def instant(when: datetime | str) -> datetime | None:
    """The moment, in UTC; None where an answer has none. Texts are those of RFC 3339."""
    if not when:
        return None
    read = datetime.fromisoformat(when) if isinstance(when, str) else when
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).astimezone(UTC)


def exact(when: datetime) -> str:
    """The moment to the second."""
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def relative(when: datetime, *, now: datetime) -> str:
    """`5 minutes ago`, `in 3 hours`, `just now`."""
    seconds = (when - now).total_seconds()
    if abs(seconds) < _NOW:
        return "just now"
    amount = _amount(abs(seconds))
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def _amount(seconds: float) -> str:
    for below, unit, name in _STEPS:
        if seconds < below:
            return _counted(int(seconds // unit), name)
    return _counted(int(seconds // _MONTH), "month")


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
