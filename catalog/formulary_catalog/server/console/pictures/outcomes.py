"""How runs ended, by day or by week: bars of those that succeeded, with those that did not on top.

The pages of incidents and of a workflow show it. What went wrong has an outline instead of a filling, so that colour is
not all.
"""

from markupsafe import Markup

from formulary_catalog.domain.reading import OutcomesAnswer, PeriodOutcomes
from formulary_catalog.server.console.pictures.svg import FAINT, picture, text

_BAR, _GAP, _HEIGHT = 12.0, 4.0, 60.0
_LEFT, _TOP, _FOOT = 32.0, 14.0, 20.0


def outcomes(ended: OutcomesAnswer) -> Markup:
    """The picture of these periods, the oldest first."""
    periods = ended.periods
    most = max((each.succeeded + each.failed for each in periods), default=0)
    width = _LEFT + len(periods) * (_BAR + _GAP) + _GAP
    base = _TOP + _HEIGHT
    parts = [
        f'<line x1="{_LEFT:g}" x2="{width:g}" y1="{base:g}" y2="{base:g}" {FAINT}/>',
        f'<text x="{_LEFT - 6:g}" y="{_TOP + 4:g}" text-anchor="end">{most}</text>',
    ]
    for place, each in enumerate(periods):
        said = f"{'week from ' if ended.by == 'week' else ''}{each.begins}"
        parts.append(
            _bar(each, said=said, x=_LEFT + _GAP + place * (_BAR + _GAP), base=base, one=_HEIGHT / max(most, 1))
        )
    if periods:
        parts.append(f'<text x="{_LEFT:g}" y="{base + 15:g}">{text(periods[0].begins)}</text>')
        parts.append(f'<text x="{width:g}" y="{base + 15:g}" text-anchor="end">{text(periods[-1].begins)}</text>')
    return picture(
        parts,
        name="outcomes",
        title=f"Outcomes of runs, {span(ended)}",
        description=described(ended),
        width=width,
        height=base + _FOOT,
    )


def span(ended: OutcomesAnswer) -> str:
    """How far back they go, such as: the last 13 weeks."""
    return f"the last {len(ended.periods)} {ended.by}s"


def described(ended: OutcomesAnswer) -> str:
    """The same in words."""
    succeeded, failed = (sum(getattr(each, name) for each in ended.periods) for name in ("succeeded", "failed"))
    worst = max(ended.periods, key=lambda each: each.failed, default=None)
    when = "in the week from" if ended.by == "week" else "on"
    most = f", most of them {when} {worst.begins} ({worst.failed})" if worst is not None and worst.failed else ""
    return f"{succeeded} succeeded and {failed} did not{most}."


def _bar(period: PeriodOutcomes, *, said: str, x: float, base: float, one: float) -> str:
    good, bad = period.succeeded * one, period.failed * one
    parts = []
    if good:
        parts.append(f'<rect class="good" x="{x:g}" y="{base - good:.1f}" width="{_BAR:g}" height="{good:.1f}"/>')
    if bad:
        parts.append(
            f'<rect class="bad" x="{x + 0.5:g}" y="{base - good - bad:.1f}" width="{_BAR - 1:g}" height="{bad:.1f}" '
            'fill="none" stroke="currentColor" stroke-width="2"/>'
        )
    title = text(f"{said}: {period.succeeded} succeeded, {period.failed} did not")
    return f"<g><title>{title}</title>{''.join(parts)}</g>"
