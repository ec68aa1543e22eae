"""Loads runbooks: the Markdown files of directories become documents, and those of files that are gone go.

`formulary up --runbooks` and `formulary runbooks load` call it. In a cluster the operator does the same from
ConfigMaps.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.domain.knowledge.markdown import MAX_RUNBOOK_BYTES, runbook_documents
from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.documents import Rejection, rejected
from formulary_catalog.loading.files import find_runbooks, first_of
from formulary_catalog.store.knowledge.runbooks import DIRECTORY, Replacement, RunbookWriter

_NAME = re.compile(r"\w[\w.-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDirectory:
    """What a load of one directory did: how many documents it has now, and what became of its files."""

    name: str
    place: str
    documents: int
    files: Replacement


@dataclass(slots=True, kw_only=True)
class RunbookReport:
    """What a load did: how many files it read, how many documents they gave, and what it refused."""

    files: int = 0
    documents: int = 0
    directories: list[LoadedDirectory] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Directory:
    """What a directory holds. `kept` are files that could not be read; `complete`: all of it could be listed."""

    documents: list[Document] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    complete: bool = True


class RunbookLoader:
    """Loads directories of runbooks into one namespace. What an unreadable file gave earlier stays.

    Each is known by a name: its own, or `name` for a single one, which then takes the place of whatever has that name.

    Raises:
        InvalidInput: two have the same name, or one has none that can be used.
    """

    def __init__(
        self, roots: Sequence[Path], *, writer: RunbookWriter, namespace: str, name: str | None = None
    ) -> None:
        if name is not None and len(roots) != 1:
            raise InvalidInput(f"--name names one directory, not {len(roots)}; load them one by one", field="name")
        self._roots: dict[str, Path] = {}
        for root in roots:
            known_by = _name_of(root) if name is None else _checked(name)
            if known_by in self._roots:
                raise InvalidInput(
                    f"{self._roots[known_by]} and {root} would both be called {known_by!r}; load them one by one, with "
                    "`formulary runbooks load DIR --name NAME`",
                    field="runbooks",
                )
            self._roots[known_by] = root
        self._take_over = name is not None
        self._writer = writer
        self._namespace = namespace

    async def load(self) -> RunbookReport:
        """Read all files and make the documents what they say.

        A directory whose name another one has is refused, the others are loaded. What was loaded of one stays if it
        holds no runbook at all: it may be the wrong one.

        Raises:
            StartupError: a directory is missing or unreadable; nothing was changed.
            Unavailable: the database does not answer; another load finishes the work.
        """
        report = RunbookReport()
        directories = {name: await asyncio.to_thread(self._read, name, report) for name in self._roots}
        for name, directory in directories.items():
            if not (directory.complete or directory.documents or directory.kept):
                continue
            place = _place_of(self._roots[name])
            try:
                files = await self._writer.replace(
                    f"{DIRECTORY}{name}",
                    directory.documents,
                    place=place,
                    take_over=self._take_over,
                    keep=directory.kept,
                    remove=directory.complete,
                )
            except InvalidInput as error:
                report.rejections.append(Rejection(source=name, field=error.field, message=str(error)))
                continue
            report.documents += len(directory.documents)
            report.directories.append(
                LoadedDirectory(name=name, place=place, documents=len(directory.documents), files=files)
            )
        return report

    def _read(self, name: str, report: RunbookReport) -> _Directory:
        found = find_runbooks([self._roots[name]])
        directory = _Directory(complete=not found.incomplete)
        report.rejections += found.rejections
        if not found.files and not found.rejections:
            directory.complete = False
            skipped = f" (skipped: {first_of(found.skipped)})" if found.skipped else ""
            problem = f"holds no runbook{skipped}; runbooks are Markdown, and end in .md or .markdown"
            report.rejections.append(rejected(problem, file=name))
        for file in found.files:
            source_file = f"{name}/{file.name}"
            report.files += 1
            try:
                directory.documents += runbook_documents(
                    _content(file.path), namespace=self._namespace, source_file=source_file
                )
            except OSError as error:
                report.rejections.append(rejected(f"cannot be read: {error.strerror}", file=source_file))
                directory.kept.append(source_file)
            except InvalidInput as error:
                report.rejections.append(Rejection(source=source_file, field=error.field, message=str(error)))
                directory.kept.append(source_file)
        return directory


def _place_of(root: Path) -> str:
    """The absolute path as it was given: behind a link such as `current` each release is another directory."""
    return os.path.abspath(root)


def _name_of(root: Path) -> str:
    if name := Path(_place_of(root)).name:
        return name
    raise InvalidInput(f"{root} has no name to know its runbooks by; give one with --name", field="name")


def _checked(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    raise InvalidInput(
        f"--name {name[:80]!r} cannot be used; give 1 to 63 letters, digits, '.', '_' and '-', a letter or digit first",
        field="name",
    )


def _content(path: Path) -> bytes:
    """The content, no more of it than tells that it is too large."""
    with path.open("rb") as file:
        return file.read(MAX_RUNBOOK_BYTES + 1)
