"""Progress, and what a starting server shows: bars on a terminal, plain lines elsewhere; always on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from formulary_catalog.domain.text import one_line
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.runtime.terminal import Page, counted


class Display:
    """Steps, progress and the findings of the first load. `progress` may be called from any thread."""

    def __init__(self) -> None:
        self._page = Page(sys.stderr)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bars = Progress(*columns, console=self._page.console, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        if self._page.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the bars away. May be called again."""
        if self._page.is_terminal:
            self._bars.stop()

    def step(self, text: str) -> None:
        """Say what is being done now."""
        self._page.line(text, style="dim")

    def progress(self, phase: str, done: int, total: int) -> None:
        """Move the bar of a phase; without a terminal only its end is printed."""
        if not self._page.is_terminal:
            if done == total:
                self.step(f"{phase}: {done} of {total}")
            return
        if phase not in self._tasks:
            self._tasks[phase] = self._bars.add_task(phase, total=total)
        self._bars.update(self._tasks[phase], completed=done, total=total)

    def problem(self, text: str) -> None:
        """Say, in one line, that something is not as wished, though the start goes on."""
        self._page.line(one_line(text), style="yellow")

    def report(self, report: LoadReport) -> None:
        """Say what was refused and what is worth knowing."""
        for rejection in report.rejections:
            self.problem(f"rejected: {rejection.message}")
        if report.rejections:
            rejected = counted(len(report.rejections), "document")
            self.step(f"not served: {rejected}; formulary validate shows all that is wrong, for the same files")
        for note in filter(None, [*report.notes, report.unembedded]):
            self.step(f"note: {note}")
        if report.ignored:
            self.step(f"ignored: {counted(report.ignored, 'document')} of other kinds")


@contextmanager
def progress_bar(description: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with how much more is done."""
    page = Page(sys.stderr)
    if not page.is_terminal:
        yield lambda more: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=page.console, transient=True) as bars:
        task = bars.add_task(description, total=total)
        yield lambda more: bars.advance(task, more)
