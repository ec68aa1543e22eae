"""Which workflows may be of no use: never found, found and never chosen, chosen and failing.

`workflows/upkeep` calls it. Whether the image of a workflow is still there is known to nobody here, so it is no reason.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from formulary_catalog.domain.runs.run import WorkflowOutcome

DAYS = 90
FIRST_AT_LEAST = 3
"""Searches that a workflow led before it says something that it was never chosen."""
FAILED_AT_LEAST = 2
REASONS = ("fails", "never-chosen", "never-found")
"""In the order in which they are listed: what does harm comes first."""

Reason = Literal["fails", "never-chosen", "never-found"]


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
class Served:
    """A workflow that is served: `use` is that of all its versions, `outcome` of the served one."""

    version_id: str
    namespace: str
    name: str
    version: str
    ambiguous: bool
    since: datetime
    use: Use
    outcome: WorkflowOutcome


def stale_because(served: Served, *, now: datetime) -> tuple[Reason, str] | None:
    """Why a workflow may be of no use, as a word and in words; None if nothing says so.

    One that is served for less than `DAYS` may not have been needed yet.
    """
    outcome, use = served.outcome, served.use
    runs = outcome.succeeded + outcome.failed
    if outcome.failed >= FAILED_AT_LEAST and outcome.failed > outcome.succeeded:
        return "fails", f"{outcome.failed} of {runs} runs of this version failed"
    if use.first >= FIRST_AT_LEAST and not use.chosen and not runs:
        return "never-chosen", f"first in {use.first} searches of {DAYS} days, and never chosen"
    if not use.found and not runs and served.since <= now - timedelta(days=DAYS):
        return "never-found", f"no search of {DAYS} days returned it"
    return None
