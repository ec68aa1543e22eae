"""What `formulary runbooks` did and found, as people read it."""

from collections.abc import Sequence

from formulary_catalog.loading.runbooks import LoadedDirectory, RunbookReport
from formulary_catalog.runtime.terminal import Page, counted
from formulary_catalog.store.knowledge.runbooks import DIRECTORY, Replacement, RunbookSource

_SHOWN_FILES = 10


def show_loaded(report: RunbookReport, *, page: Page) -> None:
    """What a load read, replaced and removed, directory by directory."""
    for each in report.directories:
        _show_directory(each, page=page)


def show_removed(name: str, gone: Replacement, *, page: Page) -> None:
    """What was removed."""
    page.line(f"Removed {name}: {counted(len(gone.removed), 'file')}.")


def show_sources(sources: Sequence[RunbookSource], *, page: Page) -> None:
    """One line a source."""
    if not sources:
        page.line("No runbooks are loaded. `formulary runbooks load DIR` loads some.")
        return
    rows = [
        (
            each.origin.removeprefix(DIRECTORY),
            each.namespace,
            str(each.files),
            str(each.documents),
            each.loaded_at.strftime("%Y-%m-%d %H:%M UTC") if each.loaded_at else "",
            each.place,
        )
        for each in sources
    ]
    page.table(("NAME", "NAMESPACE", "FILES", "DOCUMENTS", "LOADED", "DIRECTORY"), rows)


def _show_directory(loaded: LoadedDirectory, *, page: Page) -> None:
    files = loaded.files
    there = len(files.added) + len(files.replaced) + len(files.unchanged)
    page.line(
        f"{loaded.name}: {counted(loaded.documents, 'document')} of {counted(there, 'file')}, from {loaded.place}",
        style="bold cyan",
    )
    if files.place_before not in ("", loaded.place):
        page.line(f"  in the place of {files.place_before}", style="yellow")
    page.pair("added", _names(files.added), indent=2)
    page.pair("replaced", _names(files.replaced), indent=2)
    page.pair("removed", _names(files.removed), indent=2)
    page.pair("unchanged", counted(len(files.unchanged), "file") if files.unchanged else "", indent=2)


def _names(files: Sequence[str]) -> str:
    shown = ", ".join(files[:_SHOWN_FILES])
    more = len(files) - _SHOWN_FILES
    return f"{shown} and {more} more" if more > 0 else shown
