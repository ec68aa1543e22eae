"""Times as answers write them, and as people say them: so long ago, or a date.

Everything that answers with a time writes it with `moment`. The command line and REST read times with `moment_said`.
"""

import re
from datetime import UTC, datetime, timedelta

from formulary_catalog.errors import InvalidInput

BEGINNING = datetime.fromtimestamp(0, UTC)
"""Before everything that was recorded."""
_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(at: datetime) -> str:
    """A time in UTC to the second, RFC 3339."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_said(text: str, *, now: datetime, name: str) -> datetime:
    """A time: `90m`, `24h`, `7d` or `2w` before `now`, or a date with or without a time, in UTC if it names no zone.

    Raises:
        InvalidInput: it is neither; the message calls it `name`.
    """
    if (ago := _AGO.fullmatch(text)) is not None:
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            return BEGINNING
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput(
            f"{name} {text[:60]!r} is no time; give 90m, 24h, 7d or 2w, or a date such as 2026-11-22 or "
            "2026-11-22T10:00Z",
            field="since",
        ) from None
