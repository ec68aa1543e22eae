"""Writes docs/images/demo.svg: what `formulary demo` prints, as a recording for README.

The picture is made of the output alone: each line appears after a fixed time, so that the same output gives the same
file. `tests/integration/processes/test_demo.py` holds it to what the command prints now.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from html import escape
from pathlib import Path

FILE = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
COMMAND = "formulary demo"
ENVIRONMENT = {"COLUMNS": "60", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
_ESCAPE = re.compile(r"\x1b\[([\d;]*)m")
_CLASSES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}
_ROWS = 26
_LINE, _TOP, _WIDTH = 18, 30, 520
_LINE_SECONDS, _HEADING_SECONDS, _END_SECONDS = 0.12, 2.2, 6.0
_STYLE = """\
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d6dbe1; white-space: pre; }
.b { font-weight: 700; fill: #fff; } .d { fill: #8b95a1; }
.r { fill: #ff9d94; } .g { fill: #7bd69a; } .y { fill: #f0b95a; } .c { fill: #9fd3ff; }
.cover { fill: #11161c; transform: translateY(%(all)spx); }
@media (prefers-reduced-motion: no-preference) {
.cover { animation: cover %(seconds)ss step-end infinite; }
.roll { animation: roll %(seconds)ss step-end infinite; }
}
"""


def svg(printed: str) -> str:
    """The recording of what the command printed, with the colours of a terminal."""
    lines = [f"\x1b[1m$ {COMMAND}\x1b[0m", *printed.rstrip("\n").split("\n")]
    moments = list(_moments(lines))
    seconds = moments[-1] + _END_SECONDS
    places = [f"{100 * at / seconds:.2f}%" for at in moments]
    cover = "".join(f"{place}{{transform:translateY({(row + 1) * _LINE}px)}}" for row, place in enumerate(places))
    roll = "".join(
        f"{place}{{transform:translateY({-max(0, row + 1 - _ROWS) * _LINE}px)}}" for row, place in enumerate(places)
    )
    height = _TOP + _ROWS * _LINE + 14
    rows = "\n".join(
        f'<text x="14" y="{(row + 1) * _LINE - 5}">{_spans(line)}</text>' for row, line in enumerate(lines)
    )
    style = _STYLE % {"all": len(lines) * _LINE, "seconds": f"{seconds:.1f}"}
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">
<title>A recording of {COMMAND}</title>
<style>
{style}@keyframes cover{{{cover}}}
@keyframes roll{{{roll}}}
</style>
<rect width="{_WIDTH}" height="{height}" rx="8" fill="#11161c"/>
<g fill="#3b4652"><circle cx="18" cy="15" r="5"/><circle cx="34" cy="15" r="5"/><circle cx="50" cy="15" r="5"/></g>
<svg y="{_TOP}" width="{_WIDTH}" height="{_ROWS * _LINE}">
<g class="roll">
{rows}
<rect class="cover" width="{_WIDTH}" height="{len(lines) * _LINE}"/>
</g>
</svg>
</svg>
"""


def _moments(lines: list[str]) -> Iterator[float]:
    """When each line appears, in seconds."""
    at = 0.0
    for line in lines:
        at += _HEADING_SECONDS if re.match(r"\x1b\[1m\d", line) else _LINE_SECONDS
        yield round(at, 2)


def _spans(line: str) -> str:
    """A line with its colours, as pieces of an SVG text."""
    pieces, style, end = [], "", 0
    for found in [*_ESCAPE.finditer(line), None]:
        text = line[end : found.start() if found else None]
        if text:
            pieces.append(f'<tspan class="{style}">{escape(text)}</tspan>' if style else escape(text))
        if found:
            end = found.end()
            style = " ".join(_CLASSES[code] for code in found[1].split(";") if code in _CLASSES)
    return "".join(pieces)


def main() -> None:
    """Run the command, and write the file."""
    printed = subprocess.run(
        COMMAND.split(), env=os.environ | ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    FILE.write_text(svg(printed), encoding="utf-8")


if __name__ == "__main__":
    main()
