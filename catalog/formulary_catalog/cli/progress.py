"""A bar on standard error for long work; nothing where standard error is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from formulary_catalog.cli.terminal import Page


@contextmanager
def progress_bar(description: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """A function that is told how much more is done."""
    page = Page(sys.stderr)
    if not page.is_terminal:
        yield lambda more: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=page.console, transient=True) as bars:
        task = bars.add_task(description, total=total)
        yield lambda more: bars.advance(task, more)
