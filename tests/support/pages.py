"""Pages of HTML as tests read them: elements in their order, with their attributes and all text inside."""

from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"br", "input", "link", "meta", "hr", "img"})


@dataclass(slots=True)
class Element:
    """An element. `texts` are the pieces of text inside, `words` all of it in one line."""

    tag: str
    attributes: dict[str, str]
    texts: list[str] = field(default_factory=list)
    inside: list["Element"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def all(self, tag: str = "", which: Callable[["Element"], bool] = lambda _: True) -> list["Element"]:
        """The elements inside of this tag, or of any, that are so."""
        return [each for each in self.inside if tag in ("", each.tag) and which(each)]

    def having(self, attribute: str, value: str | None = None) -> list["Element"]:
        """The elements inside with this attribute, and with this value of it."""
        return self.all(which=lambda each: attribute in each.attributes and value in (None, each.attributes[attribute]))

    def one(self, tag: str = "", **attributes: str) -> "Element":
        """The first element inside with this tag and these attributes."""
        return self.all(tag, lambda each: attributes.items() <= each.attributes.items())[0]


def page_of(html: str) -> Element:
    """The page."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.page


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Element("", {})
        self._open = [self.page]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        for each in self._open:
            each.inside.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if any(each.tag == tag for each in self._open[1:]):
            while self._open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        for each in self._open:
            each.texts.append(data)
