"""The neighbours of a workflow as a picture: who leads to it on the left, where it leads to on the right.

The catalog page shows it beside the same as a list, which is what a screen reader reads. Every text is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from formulary_catalog.domain.answers.browsing import RelatedEntity
from formulary_catalog.domain.visible import visible
from formulary_catalog.domain.workflows.relations import Direction, Relation
from formulary_catalog.server.console.pictures.svg import cut

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
_SHOWN_CHARACTERS = 24
_WIDTH, _BOX, _HEIGHT, _STEP = 1080, 224, 34, 52
_BESIDE, _OFF = 8, 10
"""Where the words of an arrow are: beside the box of the neighbour, and off the line."""
_LEFT, _MIDDLE, _RIGHT = 0, (_WIDTH - _BOX) // 2, _WIDTH - _BOX


@dataclass(frozen=True, slots=True)
class _Side:
    """The neighbours of one side with what connects them, in words, and how many more there are."""

    shown: Sequence[tuple[str, str]]
    more: int

    @property
    def rows(self) -> int:
        return len(self.shown) + (self.more > 0)

    @classmethod
    def of(cls, related: Sequence[RelatedEntity], direction: Direction) -> "_Side":
        words: dict[str, list[str]] = {}
        for each in related:
            if each.direction == direction:
                words.setdefault(each.name, []).append(RELATION_WORDS[Relation(each.relation)])
        named = [(name, ", ".join(dict.fromkeys(said))) for name, said in words.items()]
        return cls(named[:MAX_SHOWN], max(len(named) - MAX_SHOWN, 0))


def relations_picture(name: str, related: Sequence[RelatedEntity]) -> Markup:
    """The nearest neighbours of the workflow of this name as SVG; empty without any."""
    near = [each for each in related if each.depth == 1]
    if not near:
        return Markup("")
    left, right = _Side.of(near, Direction.INCOMING), _Side.of(near, Direction.OUTGOING)
    height = max(left.rows, right.rows, 1) * _STEP
    middle = height // 2
    parts = [
        _box(name, x=_MIDDLE, y=middle, is_middle=True),
        *_drawn(left, is_left=True, height=height, middle=middle),
        *_drawn(right, is_left=False, height=height, middle=middle),
    ]
    return Markup(
        '<svg role="img" aria-labelledby="relations-title" viewBox="{box}" width="{width}" height="{height}" '
        'font-size="14" fill="currentColor">'
        '<title id="relations-title">{title}</title>'
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="currentColor"/></marker></defs>{parts}</svg>'
    ).format(
        box=f"0 0 {_WIDTH} {height}",
        width=_WIDTH,
        height=height,
        title=f"{len(left.shown) + left.more} lead to {visible(name)}, which leads to {len(right.shown) + right.more}",
        parts=Markup("").join(parts),
    )


def _drawn(side: _Side, *, is_left: bool, height: int, middle: int) -> list[Markup]:
    x = _LEFT if is_left else _RIGHT
    above = (height - side.rows * _STEP) // 2 + _STEP // 2
    places = [above + number * _STEP for number in range(side.rows)]
    parts = []
    for (name, words), y in zip(side.shown, places, strict=False):
        parts.append(_box(name, x=x, y=y))
        parts.append(_arrow(words, is_left=is_left, y=y, middle=middle))
    if side.more:
        parts.append(_text(f"and {side.more} more, in the list", x=x + _BOX // 2, y=places[-1]))
    return parts


def _box(name: str, *, x: int, y: int, is_middle: bool = False) -> Markup:
    shown = visible(name)
    return Markup(
        '<g><title>{name}</title><rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="none" '
        'stroke="currentColor" stroke-width="{stroke}"/>{text}</g>'
    ).format(
        name=shown,
        x=x + 1,
        y=y - _HEIGHT // 2,
        width=_BOX - 2,
        height=_HEIGHT,
        stroke="2" if is_middle else "1",
        text=_text(cut(shown, longest=_SHOWN_CHARACTERS), x=x + _BOX // 2, y=y),
    )


def _arrow(words: str, *, is_left: bool, y: int, middle: int) -> Markup:
    """From the neighbour to the workflow, or the other way; at the workflow they end at different heights.

    The words are near the neighbour, on the side from which the line leads away.
    """
    near = middle + max(min((y - middle) // 4, _HEIGHT // 2 - 3), 3 - _HEIGHT // 2)
    start, end = ((_LEFT + _BOX, y), (_MIDDLE, near)) if is_left else ((_MIDDLE + _BOX, near), (_RIGHT, y))
    at = _LEFT + _BOX + _BESIDE if is_left else _RIGHT - _BESIDE
    return Markup(
        '<path d="M{x1} {y1} {x2} {y2}" stroke="currentColor" fill="none" marker-end="url(#arrow)"/>{text}'
    ).format(
        x1=start[0],
        y1=start[1],
        x2=end[0],
        y2=end[1],
        text=_text(words, x=at, y=y + (_OFF if y > middle else -_OFF), size="11", anchor="start" if is_left else "end"),
    )


def _text(text: str, *, x: int, y: int, size: str = "14", anchor: str = "middle") -> Markup:
    return Markup(
        '<text x="{x}" y="{y}" text-anchor="{anchor}" dominant-baseline="central" font-size="{size}">{text}</text>'
    ).format(x=x, y=y, anchor=anchor, size=size, text=text)
