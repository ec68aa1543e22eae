"""Two versions of a workflow as people read them on a terminal: the lines of one, then those of the other."""

from formulary_catalog.domain.browsing import VersionDifference
from formulary_catalog.runtime.terminal import Page

_OMITTED = "  …"


def show_difference(difference: VersionDifference, *, page: Page) -> None:
    """What is gone after `-`, what is new after `+`, and some lines around it."""
    page.line(f"{difference.workflow_id}  {difference.older} → {difference.newer}", style="bold cyan")
    if not difference.rows:
        page.line("They say the same.")
    added: list[str] = []
    for row in difference.rows:
        if row.kind not in ("changed", "added"):
            _show_added(added, page=page)
        if row.kind == "same":
            page.line(f"  {row.older}")
        elif row.kind == "left out":
            page.line(_OMITTED, style="dim")
        if row.kind in ("changed", "removed"):
            page.line(f"- {row.older}", style="red")
        if row.kind in ("changed", "added"):
            added.append(row.newer)
    _show_added(added, page=page)
    page.notes(difference.notes)


def _show_added(lines: list[str], *, page: Page) -> None:
    for line in lines:
        page.line(f"+ {line}", style="green")
    lines.clear()
