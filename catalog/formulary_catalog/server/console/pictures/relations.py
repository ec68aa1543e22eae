"""The neighbours of a workflow as a picture: who leads to it on the left, where it leads to on the right.

The catalog page shows it beside the same as a list, which is what a screen reader reads. Every text is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from formulary_catalog.domain.browsing import RelatedEntity
from formulary_catalog.domain.workflows.relations import Direction, Relation
from formulary_catalog.domain.workflows.visible import visible

RELATION_WORDS = {
    Relation.REQUIRES: "requires",
    Relation.ESCALATES_TO: "escalates to",
    Relation.ROLLBACK_OF: "rolls back",
    Relation.SUPERSEDES: "supersedes",
    Relation.PREVIOUS_VERSION: "was before",
    Relation.MENTIONS: "mentions",
    Relation.ANSWERS_SIGNAL: "answers",
    Relation.SAME_ACTION: "has the action of",
}
MAX_SHOWN = 12
"""Neighbours on each side."""
_SHOWN_CHARACTERS = 30
_WIDTH, _BOX, _HEIGHT, _STEP, _EDGE = 900, 240, 34, 52, 8
_LEFT, _MIDDLE, _RIGHT = 0, (_WIDTH - _BOX) // 2, _WIDTH - _BOX


@dataclass(frozen=True, slots=True)
class _Side:
    """The neighbours of one side, and how many more there are."""

    shown: Sequence[RelatedEntity]
    more: int

    @property
    def rows(self) -> int:
        return len(self.shown) + (self.more > 0)

    @classmethod
    def of(cls, related: Sequence[RelatedEntity], direction: Direction) -> "_Side":
        those = [each for each in related if each.direction == direction]
        return cls(those[:MAX_SHOWN], len(those) - len(those[:MAX_SHOWN]))


def relations_picture(name: str, related: Sequence[RelatedEntity]) -> Markup:
    """The nearest neighbours of the workflow of this name as SVG; empty without any."""
    near = [each for each in related if each.depth == 1]
    if not near:
        return Markup("")
    left, right = _Side.of(near, Direction.INCOMING), _Side.of(near, Direction.OUTGOING)
    height = max(left.rows, right.rows, 1) * _STEP
    middle = height // 2
    parts = [
        _box(name, x=_MIDDLE, y=middle, is_bold=True),
        *_side(left, x=_LEFT, height=height, middle=middle),
        *_side(right, x=_RIGHT, height=height, middle=middle),
    ]
    return Markup(
        '<svg role="img" aria-labelledby="relations-title" viewBox="{box}" width="100%" '
        'preserveAspectRatio="xMidYMid meet" font-size="14" fill="currentColor">'
        '<title id="relations-title">{title}</title>'
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="currentColor"/></marker></defs>{parts}</svg>'
    ).format(
        box=f"0 0 {_WIDTH} {height}",
        title=f"{len(left.shown) + left.more} lead to {visible(name)}, which leads to {len(right.shown) + right.more}",
        parts=Markup("").join(parts),
    )


def _side(side: _Side, *, x: int, height: int, middle: int) -> list[Markup]:
    above = (height - side.rows * _STEP) // 2 + _STEP // 2
    places = [above + number * _STEP for number in range(side.rows)]
    parts = []
    for each, y in zip(side.shown, places, strict=False):
        parts.append(_box(each.name, x=x, y=y))
        parts.append(_arrow(each, x=x, y=y, middle=middle))
    if side.more:
        parts.append(_text(f"and {side.more} more, in the list", x=x + _BOX // 2, y=places[-1]))
    return parts


def _box(name: str, *, x: int, y: int, is_bold: bool = False) -> Markup:
    shown = visible(name)
    cut = shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[: _SHOWN_CHARACTERS - 1]}…"
    return Markup(
        '<g><title>{name}</title><rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="none" '
        'stroke="currentColor" stroke-width="{stroke}"/>{text}</g>'
    ).format(
        name=shown,
        x=x + 1,
        y=y - _HEIGHT // 2,
        width=_BOX - 2,
        height=_HEIGHT,
        stroke="2" if is_bold else "1",
        text=_text(cut, x=x + _BOX // 2, y=y, weight="bold" if is_bold else "normal"),
    )


def _arrow(each: RelatedEntity, *, x: int, y: int, middle: int) -> Markup:
    """From the neighbour to the workflow, or the other way; where several meet they come from different heights."""
    incoming = each.direction == Direction.INCOMING
    near = middle + max(min((y - middle) // 4, _HEIGHT // 2 - 3), 3 - _HEIGHT // 2)
    start, end = ((x + _BOX, y), (_MIDDLE, near)) if incoming else ((_MIDDLE + _BOX, near), (x, y))
    at = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2 - _EDGE)
    return Markup(
        '<path d="M{x1} {y1} {x2} {y2}" stroke="currentColor" fill="none" marker-end="url(#arrow)"/>{text}'
    ).format(
        x1=start[0],
        y1=start[1],
        x2=end[0],
        y2=end[1],
        text=_text(RELATION_WORDS[Relation(each.relation)], x=at[0], y=at[1], size="12"),
    )


def _text(text: str, *, x: int, y: int, weight: str = "normal", size: str = "14") -> Markup:
    return Markup(
        '<text x="{x}" y="{y}" text-anchor="middle" dominant-baseline="central" font-weight="{weight}" '
        'font-size="{size}">{text}</text>'
    ).format(x=x, y=y, weight=weight, size=size, text=text)
