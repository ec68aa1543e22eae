"""What all pictures share: texts that are safe in XML, and the frame that says in words what is to be seen."""

import re
from collections.abc import Iterable
from html import escape

from markupsafe import Markup

from formulary_catalog.domain.visible import MARK, visible

FAINT = 'stroke="currentColor" stroke-opacity="0.35"'
"""Lines behind what matters. Presentation attributes, because the policy of the console allows no styles in place."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(value: str) -> str:
    """Text of others as content or value of an attribute; what XML cannot hold or hides something is marked."""
    return escape(_NOT_IN_XML.sub(MARK, visible(value)))


def cut(value: str, *, longest: int) -> str:
    """The text in one line, without what does not fit."""
    line = " ".join(value.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def picture(parts: Iterable[str], *, name: str, title: str, description: str, width: float, height: float) -> Markup:
    """An image of these elements; `name` is that of its ids on the page, and its class."""
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="{text(name)}" '
        f'aria-labelledby="{text(name)}-title {text(name)}-desc" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" fill="currentColor" font-size="13">'
        f'<title id="{text(name)}-title">{text(title)}</title><desc id="{text(name)}-desc">{text(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )
