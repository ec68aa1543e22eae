"""What a message about an alert changes: it begins an episode, repeats it, ends it, or comes too late.

`store/alerts` calls it under a lock of the source. Senders repeat messages, and after a failure send them again: the
same message twice changes nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Change(StrEnum):
    """What a message does to an incident."""

    BEGUN = "begun"
    REPEATED = "repeated"
    ENDED = "ended"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The newest episode of an incident. `starts_at` is when it began, as the sender says."""

    number: int
    firing: bool
    starts_at: datetime


def change_of(known: Episode | None, *, firing: bool, starts_at: datetime | None) -> Change:
    """What a message about an alert changes; `known` is None where nothing is known of it.

    A message of an earlier episode is late. One without a time is about the newest.
    """
    if known is None:
        return Change.BEGUN if firing else Change.IGNORED
    if starts_at is not None and starts_at < known.starts_at:
        return Change.IGNORED
    if firing:
        return Change.REPEATED if known.firing else Change.BEGUN
    return Change.ENDED if known.firing else Change.IGNORED


def began_at(known: Episode | None, *, starts_at: datetime, at: datetime) -> datetime:
    """When an episode began whose first message says `starts_at` and arrived `at`.

    Senders that lost sight of an alert fire it again with its first start, which was before the end of the last one.
    """
    return starts_at if known is None or starts_at > known.starts_at else at


def ended_at(known: Episode, *, ends_at: datetime | None, at: datetime) -> datetime:
    """When an episode ended of which a message says so that arrived `at`: groups of alerts are sent minutes late."""
    return max(known.starts_at, min(ends_at or at, at))
