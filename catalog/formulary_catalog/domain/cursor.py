"""Where the next page of a listing begins: an opaque text that belongs to one question and to no other.

`services/workflows/listing` gives it out and takes it back. It names the last row of a page, which the caller has seen,
so there is nothing in it to keep secret.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from formulary_catalog.errors import InvalidInput

MAX_CURSOR_LENGTH = 1000
_DIGEST = 12
_DIGITS = 15


class Place(NamedTuple):
    """A row of a listing, by what it is sorted by."""

    name: str
    namespace: str
    version_id: str


class TimedRow(NamedTuple):
    """A row of a listing in the order of time: when, as RFC 3339, and its id."""

    at: str
    id: str


class NumberedRow(NamedTuple):
    """A row of a listing that is numbered, in digits."""

    number: str


class TwoLists(NamedTuple):
    """What was listed of alerts and of signals, as `domain/coverage/turns` says it."""

    first_alerts: str
    last_alert: str
    first_signals: str
    last_signal: str


_P = TypeVar("_P", Place, TimedRow, NumberedRow, TwoLists)


def cursor(place: Place | TimedRow | NumberedRow | TwoLists, *, question: Mapping[str, Any]) -> str:
    """The text that stands for what follows a row in the answer to a question."""
    return base64.urlsafe_b64encode(json.dumps([_digest(question), *place]).encode()).decode().rstrip("=")


def place_of(text: str, *, question: Mapping[str, Any]) -> Place | None:
    """The row after which the page of a cursor begins, by its name; None for the first page.

    Raises:
        InvalidInput: it is no cursor, or that of another question.
    """
    return _read(text, question=question, kind=Place)


def moment_of(text: str, *, question: Mapping[str, Any]) -> tuple[datetime, str] | None:
    """The same in a listing in the order of time: when the row is from, and its id."""
    if (place := _read(text, question=question, kind=TimedRow)) is None:
        return None
    try:
        return datetime.fromisoformat(place.at).astimezone(UTC), place.id
    except (ValueError, OverflowError):
        raise _refused("is no cursor of a listing; copy next_cursor of the answer before") from None


def number_of(text: str, *, question: Mapping[str, Any]) -> int:
    """The number of the row after which the page of a cursor begins; 0 for the first page."""
    if (place := _read(text, question=question, kind=NumberedRow)) is None:
        return 0
    if not (place.number.isascii() and place.number.isdigit() and len(place.number) <= _DIGITS):
        raise _refused("is no cursor of a listing; copy next_cursor of the answer before")
    return int(place.number)


def lists_of(text: str, *, question: Mapping[str, Any]) -> TwoLists:
    """What the pages up to a cursor listed; nothing for the first page."""
    return _read(text, question=question, kind=TwoLists) or TwoLists("", "", "", "")


def _read(text: str, *, question: Mapping[str, Any], kind: type[_P]) -> _P | None:
    if not text:
        return None
    try:
        digest, *parts = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        place = kind(*parts)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _refused("is no cursor of a listing; copy next_cursor of the answer before") from None
    if not all(isinstance(part, str) for part in place) or "\0" in "".join(place):
        raise _refused("is no cursor of a listing; copy next_cursor of the answer before")
    if digest != _digest(question):
        raise _refused(
            "belongs to another question; send it with the filters and the incident of the answer it came from, or "
            "leave it out to begin again"
        )
    return place


def _digest(question: Mapping[str, Any]) -> str:
    canonical = json.dumps({name: value for name, value in question.items() if value}, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST]


def _refused(rule: str) -> InvalidInput:
    return InvalidInput(f"cursor {rule}", field="cursor")
