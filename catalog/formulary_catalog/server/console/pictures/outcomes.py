"""How runs ended, day by day: bars of those that succeeded, with those that did not on top.

The page of incidents shows it. What went wrong has an outline instead of a filling, so that colour is not all.
"""

from collections.abc import Sequence

from markupsafe import Markup

from formulary_catalog.domain.reading import DayOutcomes
from formulary_catalog.server.console.pictures.svg import FAINT, picture, text

_BAR, _GAP, _HEIGHT = 12.0, 4.0, 60.0
_LEFT, _TOP, _FOOT = 32.0, 14.0, 20.0


def outcomes(days: Sequence[DayOutcomes]) -> Markup:
    """The picture of these days, the oldest first."""
    most = max((day.succeeded + day.failed for day in days), default=0)
    width = _LEFT + len(days) * (_BAR + _GAP) + _GAP
    base = _TOP + _HEIGHT
    parts = [
        f'<line x1="{_LEFT:g}" x2="{width:g}" y1="{base:g}" y2="{base:g}" {FAINT}/>',
        f'<text x="{_LEFT - 6:g}" y="{_TOP + 4:g}" text-anchor="end">{most}</text>',
    ]
    for place, day in enumerate(days):
        parts.append(_bar(day, x=_LEFT + _GAP + place * (_BAR + _GAP), base=base, each=_HEIGHT / max(most, 1)))
    if days:
        parts.append(f'<text x="{_LEFT:g}" y="{base + 15:g}">{text(days[0].day)}</text>')
        parts.append(f'<text x="{width:g}" y="{base + 15:g}" text-anchor="end">{text(days[-1].day)}</text>')
    return picture(
        parts,
        name="outcomes",
        title=f"Outcomes of runs, the last {len(days)} days",
        description=described(days),
        width=width,
        height=base + _FOOT,
    )


def described(days: Sequence[DayOutcomes]) -> str:
    """The same in words."""
    succeeded, failed = sum(day.succeeded for day in days), sum(day.failed for day in days)
    worst = max(days, key=lambda day: day.failed, default=None)
    most = f", most of them on {worst.day} ({worst.failed})" if worst is not None and worst.failed else ""
    return f"{succeeded} succeeded and {failed} did not{most}."


def _bar(day: DayOutcomes, *, x: float, base: float, each: float) -> str:
    good, bad = day.succeeded * each, day.failed * each
    said = text(f"{day.day}: {day.succeeded} succeeded, {day.failed} did not")
    parts = []
    if good:
        parts.append(f'<rect class="good" x="{x:g}" y="{base - good:.1f}" width="{_BAR:g}" height="{good:.1f}"/>')
    if bad:
        parts.append(
            f'<rect class="bad" x="{x + 0.5:g}" y="{base - good - bad:.1f}" width="{_BAR - 1:g}" height="{bad:.1f}" '
            'fill="none" stroke="currentColor" stroke-width="2"/>'
        )
    return f"<g><title>{said}</title>{''.join(parts)}</g>"
