"""Runbooks: a file of Markdown as documents, one for each heading that has a text of its own.

The loader and the operator call it. Whatever the file holds is data: it is parsed and never run, fetched or rendered.
HTML, comments, images and the targets of links are left out, so that a reader is shown no more than the words.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from formulary_catalog.domain.knowledge.documents import (
    RUNBOOK_ID,
    Collection,
    Document,
    Section,
    documents,
    source_id,
)
from formulary_catalog.domain.text import one_line, storable, words
from formulary_catalog.errors import InvalidInput

MAX_RUNBOOK_BYTES = 1_000_000
MAX_SECTIONS = 1000
_MAX_TITLE = 200
_MAX_NAME = 60
_MAX_FRONT_MATTER = 4000
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLES, _KEYWORDS = ("title", "name"), ("keywords", "tags", "alerts")
_PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")


def runbook_documents(content: bytes, *, namespace: str, source_file: str) -> list[Document]:
    """The documents of one runbook, `rb_…#heading`, in the order in which they are read.

    The title is that of the front matter, else the first heading of the first level, else the name of the file. What
    the front matter lists as keywords, tags or alerts is found with each section; its description, by which a skill is
    found, is read as the beginning of the text.

    Raises:
        InvalidInput: it is too large, no text, or has more sections than anybody reads.
    """
    if len(content) > MAX_RUNBOOK_BYTES:
        raise _refused(source_file, f"has {len(content)} bytes, more than {MAX_RUNBOOK_BYTES}; split it")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _refused(source_file, "is not UTF-8; save it as that") from None
    if not storable(text):
        raise _refused(source_file, "contains the NUL character; remove it")
    matter, body = front_matter(text)
    every = _headings(_PARSER.parse(body))
    if matter.description:
        every[0].lines[:0] = [matter.description, ""]
    headings = [each for each in every if any(each.lines)]
    if len(headings) > MAX_SECTIONS:
        raise _refused(source_file, f"has {len(headings)} sections, more than {MAX_SECTIONS}; split it")
    title = matter.title or next((each.text for each in every if each.level == 1), "") or _name_of(source_file)
    found: list[Document] = []
    for heading, section in zip(headings, _named(headings), strict=True):
        above = [title, *(name for name in heading.above if name != title), *matter.keywords]
        found += documents(
            [section._replace(title=section.title or title)],
            source_id=source_id(RUNBOOK_ID, namespace, source_file),
            collection=Collection.RUNBOOKS,
            namespace=namespace,
            source_file=source_file,
            title=". ".join(above),
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """What the front matter says that finds a runbook."""

    title: str = ""
    keywords: tuple[str, ...] = ()
    description: str = ""


@dataclass(slots=True, kw_only=True)
class _Heading:
    """A heading, those above it from the outside in, and the lines under it; level 0 is the text before the first."""

    level: int = 0
    text: str = ""
    above: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)


def front_matter(text: str) -> tuple[FrontMatter, str]:
    """What it says, and the text behind it. One that cannot be read says nothing."""
    matched = _FRONT_MATTER.match(text)
    if matched is None:
        return FrontMatter(), text
    body = text[matched.end() :]
    if len(matched[1]) > _MAX_FRONT_MATTER:
        return FrontMatter(), body
    try:
        # The base loader leaves all scalars text and merges nothing: merged aliases could grow without end.
        read = yaml.load(matched[1], Loader=yaml.CBaseLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return FrontMatter(), body
    if not isinstance(read, dict):
        return FrontMatter(), body
    title = next((value for name in _TITLES if isinstance(value := read.get(name), str) and value.strip()), "")
    keywords = [word for name in _KEYWORDS for word in _texts(read.get(name))]
    matter = FrontMatter(
        title=_short(title),
        keywords=(_short(", ".join(keywords)),) if keywords else (),
        description=one_line(" ".join(_texts(read.get("description")))),
    )
    return matter, body


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [each for each in value if isinstance(each, str) and each.strip()] if isinstance(value, list) else []


def _headings(tokens: Sequence[Token]) -> list[_Heading]:
    """The headings with their lines. Those inside quotes and lists are text."""
    found = [_Heading()]
    open_: list[_Heading] = []
    writer = _Writer(found[0].lines)
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0:
            level, inline = int(token.tag[1:]), tokens[number + 1]
            open_ = [each for each in open_ if each.level < level]
            heading = _Heading(
                level=level, text=_short(_words_of(inline)), above=tuple(each.text for each in open_ if each.text)
            )
            open_.append(heading)
            found.append(heading)
            writer = _Writer(heading.lines, skip=inline)
        else:
            writer.write(token)
    return found


def _named(headings: Sequence[_Heading]) -> Iterator[Section]:
    """Their sections, each with a name of its own."""
    taken: Counter[str] = Counter()
    for heading in headings:
        name = "-".join(words(heading.text.casefold()))[:_MAX_NAME].strip("-") or "text"
        taken[name] += 1
        number = taken[name]
        yield Section(name if number == 1 else f"{name}.{number}", heading.text, "\n".join(heading.lines))


class _Writer:
    """Writes blocks as lines of plain text."""

    def __init__(self, lines: list[str], *, skip: Token | None = None) -> None:
        self._lines = lines
        self._skip = skip
        self._lists = 0
        self._marker = ""
        self._row: list[str] | None = None

    def write(self, token: Token) -> None:
        """Write what a token says, if it says anything."""
        match token.type:
            case "inline" if token is not self._skip:
                self._text(_words_of(token))
            case "fence" | "code_block":
                self._block(token.content.rstrip("\n"))
            case "bullet_list_open" | "ordered_list_open":
                self._lists += 1
            case "bullet_list_close" | "ordered_list_close":
                self._lists -= 1
                self._marker = ""
            case "list_item_open":
                self._marker = "  " * (self._lists - 1) + (f"{token.info}. " if token.info else "- ")
            case "tr_open":
                self._row = []
            case "tr_close":
                self._lines.append(" | ".join(self._row or []))
                self._row = None
            case "paragraph_close" if not self._lists:
                self._lines.append("")

    def _text(self, text: str) -> None:
        if self._row is not None:
            self._row.append(one_line(text))
        elif text.strip():
            self._block(text)

    def _block(self, text: str) -> None:
        for line in text.split("\n"):
            self._lines.append((self._marker or "  " * self._lists) + line if line else "")
            self._marker = ""


def _words_of(inline: Token) -> str:
    """The text of a line without what is not words."""
    parts: list[str] = []
    for child in inline.children or []:
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
    return "".join(parts)


def _short(text: str) -> str:
    return one_line(text)[:_MAX_TITLE]


def _name_of(source_file: str) -> str:
    return " ".join(words(PurePosixPath(source_file).stem.replace("_", " "))).capitalize()


def _refused(source_file: str, rule: str) -> InvalidInput:
    return InvalidInput(f"{source_file}: {rule}", field="runbook")
