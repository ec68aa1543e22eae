"""The events of a trace along the time, each in the row of what it is about.

The pages of an incident draw it above the list that says the same. Distances grow with the time between two events,
and slower than it: a search follows another within seconds, and an approval takes an hour.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from formulary_catalog.domain.audit.stages import Stage
from formulary_catalog.domain.audit.wording import Tone, spell_duration
from formulary_catalog.server.console.pictures.svg import FAINT, cut, picture, text

MOST_MARKS = 80
_LEFT, _RIGHT, _TOP, _ROW = 96.0, 24.0, 14.0, 38.0
_RADIUS = 7.0
_NEAR, _FAR = 20.0, 150.0
"""Between two marks, at least and at most."""
_PER_DOUBLING = 11.0
_WORTH_SAYING = 44.0
"""Room that the time between two marks needs to be written there."""
_LONGEST_TITLE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An event as it is drawn: when, in which row, in which colour, and what it says to who points at it."""

    seq: int
    at: datetime
    stage: Stage
    tone: Tone
    title: str


@dataclass(frozen=True, slots=True)
class _Mark:
    """Moments in a row that are alike, drawn as one; the first and the last of them."""

    first: Moment
    last: Moment
    count: int = 1


def timeline(moments: Sequence[Moment], *, title: str) -> Markup:
    """The picture; the oldest `MOST_MARKS` groups of events that are alike, and how many come after them."""
    marks = _grouped(moments)
    left_out = sum(mark.count for mark in marks[MOST_MARKS:])
    marks = marks[:MOST_MARKS]
    rows = [stage for stage in Stage if any(mark.first.stage is stage for mark in marks)]
    places = _places(marks)
    width = (places[-1] if places else _LEFT) + _RIGHT
    height = _TOP + len(rows) * _ROW + _ROW
    parts = [*_lanes(rows, width=width), *_path(marks, places, rows), *_gaps(marks, places, height=height)]
    parts += [_drawn(mark, x=x, y=_height_of(mark, rows)) for mark, x in zip(marks, places, strict=True)]
    return picture(
        parts,
        name="timeline",
        title=title,
        description=_described(moments, left_out=left_out),
        width=width,
        height=height,
    )


def _grouped(moments: Sequence[Moment]) -> list[_Mark]:
    marks: list[_Mark] = []
    for moment in moments:
        if marks and (marks[-1].last.stage, marks[-1].last.tone) == (moment.stage, moment.tone):
            marks[-1] = _Mark(marks[-1].first, moment, marks[-1].count + 1)
        else:
            marks.append(_Mark(moment, moment))
    return marks


def _places(marks: Sequence[_Mark]) -> list[float]:
    """Where each mark is, from the left."""
    places: list[float] = []
    for before, mark in zip([None, *marks], marks, strict=False):
        if before is None:
            places.append(_LEFT + _RADIUS)
            continue
        places.append(places[-1] + min(_FAR, _NEAR + _PER_DOUBLING * math.log2(1 + _between(before, mark))))
    return places


def _between(one: _Mark, other: _Mark) -> float:
    """Seconds; what was tampered with may go backwards."""
    return max(0.0, (other.first.at - one.last.at).total_seconds())


def _height_of(mark: _Mark, rows: Sequence[Stage]) -> float:
    return _TOP + rows.index(mark.first.stage) * _ROW + _ROW / 2


def _lanes(rows: Sequence[Stage], *, width: float) -> list[str]:
    parts = []
    for place, stage in enumerate(rows):
        y = _TOP + place * _ROW + _ROW / 2
        parts.append(f'<text x="4" y="{y + 4:g}">{text(stage.value)}</text>')
        parts.append(f'<line x1="{_LEFT:g}" x2="{width:g}" y1="{y:g}" y2="{y:g}" {FAINT}/>')
    return parts


def _path(marks: Sequence[_Mark], places: Sequence[float], rows: Sequence[Stage]) -> list[str]:
    if len(marks) < 2:
        return []
    points = " ".join(f"{x:.1f},{_height_of(mark, rows):.1f}" for mark, x in zip(marks, places, strict=True))
    return [f'<polyline points="{points}" fill="none" {FAINT}/>']


def _gaps(marks: Sequence[_Mark], places: Sequence[float], *, height: float) -> list[str]:
    parts = []
    for one, other, start, end in zip(marks, marks[1:], places, places[1:], strict=False):
        if end - start >= _WORTH_SAYING:
            said = f"+{spell_duration(_between(one, other))}"
            parts.append(
                f'<text text-anchor="middle" x="{(start + end) / 2:.1f}" y="{height - 10:g}">{text(said)}</text>'
            )
    return parts


def _drawn(mark: _Mark, *, x: float, y: float) -> str:
    more = f" and {mark.count - 1} more" if mark.count > 1 else ""
    at = mark.first.at.astimezone(UTC)
    said = text(f"{at:%Y-%m-%d %H:%M:%S} UTC: {cut(mark.first.title, longest=_LONGEST_TITLE)}{more}")
    number = f'<text text-anchor="middle" x="{x:.1f}" y="{y - 10:.1f}">{mark.count}</text>' if mark.count > 1 else ""
    shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:g}"/>'
    if mark.first.tone is Tone.BAD:  # not by colour alone
        shape = f'<rect x="{x - _RADIUS:.1f}" y="{y - _RADIUS:.1f}" width="{2 * _RADIUS:g}" height="{2 * _RADIUS:g}"/>'
    return f'<g class="{mark.first.tone.value}"><title>{said}</title>{shape}{number}</g>'


def _described(moments: Sequence[Moment], *, left_out: int) -> str:
    if not moments:
        return "Nothing is recorded."
    stages = [stage.value for stage in Stage if any(moment.stage is stage for moment in moments)]
    took = spell_duration(max(0.0, (moments[-1].at - moments[0].at).total_seconds()))
    more = f" The last {left_out} are not drawn." if left_out else ""
    return f"{len(moments)} events in {took}: {', '.join(stages)}. The list below says the same.{more}"
