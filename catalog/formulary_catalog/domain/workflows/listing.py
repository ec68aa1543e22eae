"""Listings that fit into what a model can read: lines get shorter before there are fewer of them."""

from collections.abc import Callable

from pydantic_core import to_json

from formulary_catalog.domain.answers.answer_size import SHORTENED, Cut, cut_lines
from formulary_catalog.domain.answers.catalog import WorkflowList, WorkflowSummary

_CUTS = (
    Cut(member="version_id"),
    Cut(member="namespace"),
    Cut(member="title", characters=60),
    Cut(member="signal_types", values=3),
    Cut(member="indexed_at"),
    Cut(member="signal_types", values=1),
    Cut(member="title", characters=40),
    Cut(member="title", characters=30),
)
"""In this order. Programs may count on all other members."""


def within(listing: WorkflowList, *, limit: int, cursor_after: Callable[[int], str]) -> WorkflowList:
    """The listing in at most `limit` bytes of compact JSON. `cursor_after` is the cursor behind so many lines.

    Notes say that lines are shortened, and how many of the page did not fit. The first line always stays.
    """
    asked = len(listing.workflows)
    fitting = listing
    for kept in range(asked, 0, -1):
        fitting = _of(listing, kept=kept, cursor=cursor_after(kept) if kept < asked else listing.next_cursor)
        excess = _size(fitting) - limit
        if excess <= 0:
            break
        fitting = fitting.model_copy(update={"notes": [*fitting.notes, SHORTENED]})
        lines = [line.model_dump(exclude_unset=True) for line in fitting.workflows]
        if cut_lines(_CUTS, lines=lines, excess=_size(fitting) - limit) <= 0 or kept == 1:
            fitting = fitting.model_copy(update={"workflows": [WorkflowSummary(**line) for line in lines]})
            break
    return fitting


def _of(listing: WorkflowList, *, kept: int, cursor: str) -> WorkflowList:
    """The first lines of a listing, with a note if they are not all."""
    asked = len(listing.workflows)
    if kept == asked:
        return listing
    note = f"{kept} of {asked} fit; cursor leads on, limit allows a longer answer"
    fields = listing.model_dump(exclude_unset=True) | {"notes": [*listing.notes, note], "next_cursor": cursor}
    return WorkflowList(**fields | {"workflows": listing.workflows[:kept]})


def _size(listing: WorkflowList) -> int:
    return len(to_json(listing.as_json()))
