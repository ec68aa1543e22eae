"""Listings that fit into what a model can read: lines get shorter before there are fewer of them."""

from collections.abc import Callable

from pydantic_core import to_json

from formulary_catalog.domain.answers import WorkflowList, WorkflowSummary
from formulary_catalog.domain.search.results import shortened

_TITLE = 60
_SIGNALS = 3
_LEFT_OUT = {"namespace", "version_id"}
"""What `uri` and `workflow_id` say as well."""


def within(listing: WorkflowList, *, limit: int, cursor_after: Callable[[int], str]) -> WorkflowList:
    """The listing in at most `limit` bytes of compact JSON. `cursor_after` is the cursor behind so many lines."""
    if _size(listing) <= limit:
        return listing
    lines = [_shorter(line) for line in listing.workflows]
    fitting = listing.model_copy(update={"workflows": lines})
    while _size(fitting) > limit and len(fitting.workflows) > 1:
        kept = fitting.workflows[:-1]
        fields = {**fitting.model_dump(exclude_unset=True, exclude={"workflows"}), "workflows": kept}
        fitting = WorkflowList(**(fields | {"next_cursor": cursor_after(len(kept))}))
    return fitting


def _shorter(line: WorkflowSummary) -> WorkflowSummary:
    members = line.model_dump(exclude_unset=True, exclude=_LEFT_OUT)
    return WorkflowSummary(
        **members | {"title": shortened(line.title, limit=_TITLE), "signal_types": line.signal_types[:_SIGNALS]}
    )


def _size(listing: WorkflowList) -> int:
    return len(to_json(listing.as_json()))
