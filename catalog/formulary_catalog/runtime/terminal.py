"""Text for people: what others wrote is made harmless, what we add is aligned.

All commands print through `Page`. Colour and the widths of characters are rich's. Its `Table`, `Padding` and `Syntax`
are not used: they crop or fold words that are too wide and pad every line, so a digest could not be copied from a
terminal, and a pipe would not receive whole values. Its `Text` cannot wrap without folding such words; textwrap can.
"""

import re
import sys
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from formulary_catalog.domain.text import one_line
from formulary_catalog.domain.visible import MARK, visible

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\].*?(?:\x07|\x1b\\|$)|[PX^_].*?(?:\x1b\\|$)|.)", re.DOTALL)
_MAX_WIDTH = 120
_MIN_WIDTH = 20
_LABEL_WIDTH = 16
_GAP = "  "
_NARROWEST = 8
_ELLIPSIS = "…"


def plain(text: str) -> str:
    """The text without terminal escapes, and with a mark for each other character that hides something.

    People decide by what they read here: a name that hides characters must not look like the name without them.
    """
    return "".join(
        MARK if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs", "Co") else character
        for character in visible(_ESCAPES.sub("", text).replace("\r\n", "\n"))
    )


def counted(number: int, noun: str) -> str:
    """`1 warning`, `2 warnings`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _shared(widths: Sequence[int], *, room: int, kept: Sequence[bool]) -> list[int]:
    """Widths that fit into the room: the widest become narrower first, those that are kept after all others."""
    shared = list(widths)
    for last_resort in (False, True):
        while sum(shared) > room:
            widest = max(range(len(shared)), key=lambda at: shared[at] if last_resort or not kept[at] else 0)
            if shared[widest] <= _NARROWEST or (kept[widest] and not last_resort):
                break
            shared[widest] -= 1
    return shared


def _cut(cell: str, width: int) -> str:
    return set_cell_size(cell, width) if cell_len(cell) <= width else set_cell_size(cell, width - 1) + _ELLIPSIS


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Left to the command line: rich would end the process with the exit code of a failure."""
        raise BrokenPipeError


class Page:
    """Writes lines to a stream: colour only on a terminal, never wider than it, NO_COLOR honoured."""

    def __init__(self, file: TextIO | None = None, *, widest: int = _MAX_WIDTH) -> None:
        stream = file or sys.stdout
        self._widest = widest
        self.console = _Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    @property
    def width(self) -> int:
        return min(self.console.width, self._widest)

    def line(self, text: str = "", *, style: str = "") -> None:
        """One line as it is, however long."""
        self.console.print(Text(plain(text), style=style))

    def paragraph(self, text: str, *, indent: int = 0, mark: str = "", style: str = "") -> None:
        """Text wrapped at words, with a mark before its first line."""
        if text.strip():
            self._hanging(" " * indent + mark, plain(text), style=style)

    def pair(self, label: str, value: str, *, indent: int = 0, style: str = "") -> None:
        """A label and its value, wrapped in a column of its own; nothing if there is no value."""
        if value:
            self._hanging(" " * indent + plain(label).ljust(_LABEL_WIDTH), plain(value), style=style)

    def notes(self, notes: Iterable[str]) -> None:
        """A pair for each note."""
        for note in notes:
            self.pair("note", note, style="yellow")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], *, whole: Collection[str] = ()) -> None:
        """Aligned columns; they share the width of a terminal, and are whole where a program reads them.

        Where they do not fit, the widest get narrower; those of `whole`, such as ids, only at last.
        """
        cells = [[one_line(plain(cell)) for cell in row] for row in (header, *rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        if self.is_terminal:
            room = self.width - len(_GAP) * (len(widths) - 1)
            widths = _shared(widths, room=room, kept=[name in whole for name in header])
        for number, row in enumerate(cells):
            line = Text(_GAP.join(map(_cut, row, widths)).rstrip(), style="" if number else "bold")
            if self.is_terminal:
                line.truncate(self.width, overflow="ellipsis")
            self.console.print(line)

    def verbatim(self, text: str, *, indent: int, style: str = "") -> None:
        """Lines to be copied: indented, never wrapped."""
        for line in plain(text).rstrip("\n").split("\n"):
            self.console.print(Text(" " * indent + line, style=style))

    def _hanging(self, head: str, text: str, *, style: str) -> None:
        """The head, then the text in a column of its own, wrapped at words. A word stays whole, however long."""
        width = max(self.width - len(head), _MIN_WIDTH)
        for line in textwrap.wrap(text, width=width, break_long_words=False, break_on_hyphens=False) or [""]:
            self.console.print(Text.assemble((head, "dim"), (line, style)))
            head = " " * len(head)
