"""Which workflows may be of no use: image gone, failing or of no help, found and never chosen, never found.

`services/workflows/upkeep` calls it. That an image is gone is known from runs that could not pull it, and from nothing
else.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from formulary_catalog.domain.stored import StoredVersion

DAYS = 90
FIRST_AT_LEAST = 3
"""Searches that a workflow led before it says something that it was never chosen."""
FAILED_AT_LEAST = 2
REASONS = ("image-gone", "fails", "never-chosen", "never-found")
"""In the order in which they are listed: what does harm comes first."""

StaleReason = Literal["image-gone", "fails", "never-chosen", "never-found"]


class Use(NamedTuple):
    """Searches that returned a workflow, those that returned it first, and how often it was chosen."""

    found: int = 0
    first: int = 0
    chosen: int = 0

    def with_more(self, other: "Use") -> "Use":
        """The use of two versions together."""
        return Use(self.found + other.found, self.first + other.first, self.chosen + other.chosen)


UNUSED = Use()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(StoredVersion):
    """A version that is served. Its workflow is `since` then, and `use` is that of all versions of the workflow.

    `unpulled_at` is when its newest run ended, if that run could not pull the image.
    """

    since: datetime
    use: Use
    unpulled_at: datetime | None = None


def stale_because(served: Served, *, now: datetime) -> tuple[StaleReason, str] | None:
    """Why a workflow may be of no use, as a word and in words; None if nothing says so.

    One that is served for less than `DAYS` may not have been needed yet.
    """
    outcome, use = served.outcome, served.use
    runs, not_helped = outcome.succeeded + outcome.failed, outcome.verified - outcome.helped
    if served.unpulled_at is not None:
        return "image-gone", f"its newest run, on {served.unpulled_at:%Y-%m-%d}, could not pull the image"
    if outcome.failed >= FAILED_AT_LEAST and outcome.failed > outcome.succeeded:
        return "fails", f"{outcome.failed} of {runs} runs of this version failed"
    if not_helped >= FAILED_AT_LEAST and not_helped > outcome.helped:
        return "fails", f"{not_helped} of {outcome.verified} runs of this version did not help"
    if use.first >= FIRST_AT_LEAST and not use.chosen and not runs:
        return "never-chosen", f"first in {use.first} searches of {DAYS} days, and never chosen"
    if not use.found and not runs and served.since <= now - timedelta(days=DAYS):
        return "never-found", f"no search of {DAYS} days returned it"
    return None
