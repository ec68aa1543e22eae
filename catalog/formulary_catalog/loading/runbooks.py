"""Loads runbooks: the Markdown files of directories become documents, and those of files that are gone go.

`formulary up --runbooks` and `formulary runbooks load` call it. In a cluster the operator does the same from
ConfigMaps.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formulary_catalog.domain.knowledge.documents import Document
from formulary_catalog.domain.knowledge.markdown import MAX_RUNBOOK_BYTES, runbook_documents
from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.documents import Rejection, rejected
from formulary_catalog.loading.files import find_runbooks
from formulary_catalog.store.knowledge.documents import RunbookWriter

_ORIGIN = "directory:"


@dataclass(slots=True, kw_only=True)
class RunbookReport:
    """What a load did: how many files it read, how many documents they gave, and what it refused."""

    files: int = 0
    documents: int = 0
    rejections: list[Rejection] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Directory:
    """What a directory holds. `kept` are files that could not be read; `complete`: all of it could be listed."""

    documents: list[Document] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    complete: bool = True


class RunbookLoader:
    """Loads directories of runbooks into one namespace. What an unreadable file gave earlier stays."""

    def __init__(self, roots: Sequence[Path], *, writer: RunbookWriter, namespace: str) -> None:
        self._roots = {root.resolve().name: root for root in roots}
        if len(self._roots) < len(roots):
            raise InvalidInput(
                "two directories of runbooks have the same name, which their documents are known by; rename one",
                field="runbooks",
            )
        self._writer = writer
        self._namespace = namespace

    async def load(self) -> RunbookReport:
        """Read all files and make the documents what they say.

        Raises:
            StartupError: a directory is missing or unreadable; nothing was changed.
            Unavailable: the database does not answer; another load finishes the work.
        """
        report = RunbookReport()
        directories = {name: await asyncio.to_thread(self._read, name, report) for name in self._roots}
        for name, directory in directories.items():
            await self._writer.replace(
                f"{_ORIGIN}{name}",
                directory.documents,
                namespace=self._namespace,
                keep=directory.kept,
                remove=directory.complete,
            )
        return report

    def _read(self, name: str, report: RunbookReport) -> _Directory:
        found = find_runbooks([self._roots[name]])
        directory = _Directory(complete=not found.incomplete)
        report.rejections += found.rejections
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
        report.documents += len(directory.documents)
        return directory


def _content(path: Path) -> bytes:
    """The content, no more of it than tells that it is too large."""
    with path.open("rb") as file:
        return file.read(MAX_RUNBOOK_BYTES + 1)
