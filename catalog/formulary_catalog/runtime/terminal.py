"""Text for people: what others wrote is made harmless, what we add is aligned."""

import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\].*?(?:\x07|\x1b\\|$)|[PX^_].*?(?:\x1b\\|$)|.)", re.DOTALL)
_MAX_WIDTH = 120
_LABEL_WIDTH = 16
_GAP = "  "


def plain(text: str) -> str:
    """The text without terminal escapes, control characters and marks that turn the writing direction."""
    return "".join(
        character
        for character in _ESCAPES.sub("", text)
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")
    )


def counted(number: int, noun: str) -> str:
    """`1 warning`, `2 warnings`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Page:
    """Writes lines to a stream: colour only on a terminal, never wider than it, NO_COLOR honoured."""

    def __init__(self, file: TextIO | None = None) -> None:
        stream = file or sys.stdout
        self.console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    @property
    def width(self) -> int:
        return min(self.console.width, _MAX_WIDTH)

    def line(self, text: str = "", *, style: str = "") -> None:
        """One line as it is, however long."""
        self.console.print(Text(plain(text), style=style))

    def paragraph(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Text wrapped at words."""
        margin = " " * indent
        for line in _wrapped(plain(text), width=self.width - indent):
            self.console.print(Text(margin + line, style=style))

    def pair(self, label: str, value: str, *, indent: int = 0, style: str = "") -> None:
        """A label and its value, wrapped beside it; nothing if there is no value."""
        if not value:
            return
        column = indent + _LABEL_WIDTH
        first, *more = _wrapped(plain(value), width=self.width - column) or [""]
        head = Text(" " * indent + label.ljust(_LABEL_WIDTH), style="dim")
        self.console.print(head.append(first, style=f"not dim {style}".strip()))
        for line in more:
            self.console.print(Text(" " * column + line, style=style))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Aligned columns; cut to the width of a terminal, whole where a program reads them."""
        cells = [[plain(cell) for cell in row] for row in (header, *rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
        for number, row in enumerate(cells):
            line = _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            if self.is_terminal and len(line) > self.width:
                line = line[: self.width - 1] + "…"
            self.line(line, style="" if number else "bold")

    def verbatim(self, text: str, *, indent: int, style: str = "") -> None:
        """Lines to be copied: indented, never wrapped."""
        for line in plain(text).rstrip("\n").split("\n"):
            self.console.print(Text(" " * indent + line, style=style))


def _wrapped(text: str, *, width: int) -> list[str]:
    return textwrap.wrap(text, width=max(width, 20), break_long_words=False, break_on_hyphens=False)
