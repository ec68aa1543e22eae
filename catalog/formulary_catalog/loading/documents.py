"""The documents of a file, each by itself: one that is broken never loses its neighbours.

The first step of each load and of `formulary validate`. Contracts that are tried and rule files are read with it too.
Sizes, nesting and aliases are bounded here, before anything is validated.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulary_catalog.loading.syntax import SyntaxProblem, line_of, parse_json, parse_yaml

MAX_FILE_BYTES = 64 * 1024**2
MAX_DOCUMENT_BYTES = 1024**2
_START = re.compile(r"---(?=[ \t]|$)")
_END = re.compile(r"\.\.\.(?=[ \t]|$)")
_HELM = re.compile(
    r"\{\{-?\s*(?:include|template|define|if|else|end|range|with|toYaml|\.(?:Values|Release|Chart|Files))\b"
)
_PLACE = re.compile(r" \((?:document|item) \d+(?:, item \d+)*\)$")
_NUMBERED = re.compile(r"(document|item) (\d+)(?=[, \d\w]*\)$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDocument:
    """One mapping of a file. `source` is how messages name it: the file, and the place where it holds several."""

    source: str
    content: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Something that was not accepted. `message` is one whole line; `field` is empty where none is to blame.

    `problems` has every field and what is wrong with it, where there are several; the message may name the first.
    """

    source: str
    field: str
    message: str
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def one_by_one(self) -> "list[Rejection]":
        """Each problem as a rejection of its own."""
        each = [
            Rejection(source=self.source, field=field, message=f"{self.source}: {field}: {problem}")
            for field, problem in self.problems
        ]
        return each or [self]


def file_of(source: str) -> str:
    """The file that a source lies in."""
    return _PLACE.sub("", source)


def read_documents(
    path: Path, *, name: str, json_bytes: int = MAX_DOCUMENT_BYTES
) -> list[ManifestDocument | Rejection]:
    """The documents of a YAML or JSON file in their order; `name` is how messages call the file.

    `json_bytes`: the most that a JSON file may have.

    A `List` is read as its items. Empty documents are left out. Never raises for what a file holds.
    """
    text = read_text(path, name=name)
    if isinstance(text, Rejection):
        return [text]
    if path.suffix == ".json":
        return list(_parsed(text, first_line=1, file=name, place="", json=True, at_most=json_bytes))
    return documents_in(text, name=name)


def documents_in(text: str, *, name: str) -> list[ManifestDocument | Rejection]:
    """The documents of a YAML text in their order, as `read_documents` has those of a file."""
    chunks = list(_chunks(text))
    return [
        document
        for number, (first_line, chunk) in enumerate(chunks, start=1)
        for document in _parsed(
            chunk, first_line=first_line, file=name, place=f"document {number}" if len(chunks) > 1 else "", json=False
        )
    ]


def line_in(text: str, field: str, *, source: str = "") -> int:
    """The line of a field in a YAML text; as `line_of`. `source`: of the document, where there are several."""
    place = {noun: int(number) for noun, number in _NUMBERED.findall(source)}
    first_line, chunk = [*_chunks(text)][place.get("document", 1) - 1]
    within = [f"items.{place['item'] - 1}"] if "item" in place else []
    path = ".".join(filter(None, (*within, field)))
    return first_line - 1 + line_of(chunk, path) if path else first_line


def rejected(problem: str, *, file: str, place: str = "") -> Rejection:
    """A rejection in which no field is to blame."""
    source = _source(file, place)
    return Rejection(source=source, field="", message=f"{source}: {problem}")


def _source(file: str, place: str) -> str:
    return f"{file} ({place})" if place else file


def read_text(path: Path, *, name: str) -> str | Rejection:
    """The text of a file, or why it has none; `name` is how messages call it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return rejected(f"cannot be read: {error.strerror}; check that the file exists and its permissions", file=name)
    if len(data) > MAX_FILE_BYTES:
        return rejected(f"is larger than {MAX_FILE_BYTES // 1024**2} MiB; split it", file=name)
    if b"\0" in data:
        return rejected("is a binary file; manifests are YAML or JSON text", file=name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return rejected(f"is not UTF-8 text (byte {error.start}); save it as UTF-8", file=name)


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """The texts between document markers with their first lines; those that hold nothing are left out.

    No YAML text, not even a quoted one, may hold a marker in column 0, so lines decide, whatever state the YAML is in.
    """
    lines: list[str] = []
    first_line = 1
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        if _START.match(line) or _END.match(line):
            if _holds_something(lines):
                yield first_line, "\n".join(lines)
            lines, first_line = [], number
        lines.append("" if _END.match(line) else line)
    if _holds_something(lines):
        yield first_line, "\n".join(lines)


def _holds_something(lines: list[str]) -> bool:
    return any(
        (stripped := _START.sub("", line, count=1).strip()) and not stripped.startswith("#") and line[0] != "%"
        for line in lines
    )


def _parsed(
    text: str, *, first_line: int, file: str, place: str, json: bool, at_most: int = MAX_DOCUMENT_BYTES
) -> Iterator[ManifestDocument | Rejection]:
    if len(text.encode()) > at_most:
        yield rejected(f"is larger than {at_most // 1024} KiB; split it", file=file, place=place)
        return
    try:
        content = parse_json(text) if json else parse_yaml(text, first_line=first_line)
    except SyntaxProblem as problem:
        what = "is a Helm template; render it with `helm template` first" if _HELM.search(text) else str(problem)
        yield rejected(what, file=file, place=place)
        return
    if content is not None:
        yield from _unfolded(content, file=file, place=place)


def _unfolded(content: object, *, file: str, place: str) -> Iterator[ManifestDocument | Rejection]:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        yield rejected(f"is {kind}; a manifest is a map with apiVersion, kind and metadata", file=file, place=place)
        return
    if content.get("kind") != "List":
        yield ManifestDocument(source=_source(file, place), content=content)
        return
    items = content.get("items")
    if not isinstance(items, list):
        yield rejected("is a List without a list of items; add items", file=file, place=place)
        return
    for number, item in enumerate(items, start=1):
        yield from _unfolded(item, file=file, place=", ".join(filter(None, (place, f"item {number}"))))
