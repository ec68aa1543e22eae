"""Which files are manifests, or runbooks: those with the right ending under the given directories."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from formulary_catalog.domain.visible import visible
from formulary_catalog.errors import StartupError
from formulary_catalog.loading.documents import Rejection, rejected

_MANIFESTS = (".yaml", ".yml", ".json")
_RULES = (*_MANIFESTS, ".rules")
_RUNBOOKS = (".md", ".markdown")
_TESTS = (".test.yaml", ".test.yml")
_SHOWN_SKIPPED = 10


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file and the name that messages and the catalog call it by: its path under the directory it was found in."""

    path: Path
    name: str


@dataclass(slots=True)
class FoundFiles:
    """What a search for manifests found. `skipped`: the names of files with other endings.

    `incomplete`: something could not be listed, so absence proves nothing.
    """

    files: list[ManifestFile] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    incomplete: bool = False


def first_of(names: Sequence[str]) -> str:
    """Names as a message lists them: the first ones, and how many more there are."""
    more = len(names) - _SHOWN_SKIPPED
    return visible(", ".join(names[:_SHOWN_SKIPPED])) + (f" and {more} more" if more > 0 else "")


def find_manifests(roots: Iterable[Path]) -> FoundFiles:
    """The manifests under directories, recursively, and files named outright.

    Hidden entries are left out, and what tests the manifests; links are followed, each directory once.

    Raises:
        StartupError: a root is missing or cannot be listed.
    """
    roots = list(roots)
    found = _find(roots, kind="manifests", endings=_MANIFESTS)
    named = {root for root in roots if root.is_file()}
    found.files = [each for each in found.files if each.path in named or not each.name.endswith(_TESTS)]
    return found


def find_tests(roots: Iterable[Path]) -> FoundFiles:
    """The files that say what searches must find, as `find_manifests` finds manifests.

    Raises:
        StartupError: a root is missing or cannot be listed.
    """
    return _find(roots, kind="tests", endings=_TESTS)


def find_rules(roots: Iterable[Path]) -> FoundFiles:
    """The files of alerting rules, as `find_manifests` finds manifests.

    Raises:
        StartupError: a root is missing or cannot be listed.
    """
    return _find(roots, kind="rules", endings=_RULES)


def find_runbooks(roots: Iterable[Path]) -> FoundFiles:
    """The runbooks, as `find_manifests` finds manifests.

    Raises:
        StartupError: a root is missing or cannot be listed.
    """
    return _find(roots, kind="runbooks", endings=_RUNBOOKS)


def _find(roots: Iterable[Path], *, kind: str, endings: tuple[str, ...]) -> FoundFiles:
    found = FoundFiles()
    visited: set[tuple[int, int]] = set()
    for root in roots:
        if root.is_file():
            found.files.append(ManifestFile(path=root, name=_readable(root.name)))
        else:
            _search(root, kind=kind, endings=endings, found=found, visited=visited)
    return found


def _search(
    root: Path, *, kind: str, endings: tuple[str, ...], found: FoundFiles, visited: set[tuple[int, int]]
) -> None:
    try:
        pending = _entries(root, prefix="", visited=visited)
    except OSError as error:
        raise StartupError(
            f"{kind} directory {root} cannot be read: {error.strerror}; correct the path or its permissions"
        ) from error
    while pending:
        path, name, is_directory = pending.pop()
        if not is_directory:
            if path.name.endswith(endings):
                found.files.append(ManifestFile(path=path, name=name))
            else:
                found.skipped.append(name)
            continue
        try:
            pending += _entries(path, prefix=f"{name}/", visited=visited)
        except OSError as error:
            found.incomplete = True
            problem = f"cannot be listed: {error.strerror}; check the directory's permissions"
            found.rejections.append(rejected(problem, file=name))


def _entries(directory: Path, *, prefix: str, visited: set[tuple[int, int]]) -> list[tuple[Path, str, bool]]:
    """Path, name and whether it is a directory of each entry that is not hidden, the last first; none on a second
    visit."""
    status = directory.stat()
    if (status.st_dev, status.st_ino) in visited:
        return []
    visited.add((status.st_dev, status.st_ino))
    with os.scandir(directory) as entries:
        return [
            (Path(entry.path), prefix + _readable(entry.name), _is_directory(entry))
            for entry in sorted(entries, key=lambda entry: entry.name, reverse=True)
            if not entry.name.startswith(".") and (_is_directory(entry) or _is_file(entry))
        ]


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    """A link to nothing without an ending may have led to one: that it cannot be listed proves nothing of its files."""
    with suppress(OSError):  # a link in a circle, or to where nobody may look
        if entry.is_dir():
            return True
    return _leads_nowhere(entry) and not Path(entry.name).suffix


def _is_file(entry: "os.DirEntry[str]") -> bool:
    """Whether it is one, or a link to nothing, which its reader reports."""
    return _leads_nowhere(entry) or entry.is_file()


def _leads_nowhere(entry: "os.DirEntry[str]") -> bool:
    return entry.is_symlink() and not os.path.exists(entry.path)


def _readable(name: str) -> str:
    """File names are bytes; what is not UTF-8 in them is shown as the replacement character."""
    return os.fsencode(name).decode(errors="replace")


def starter_catalog() -> Path:
    """The directory of the starter catalog, in an installed package or in the source tree."""
    package = Path(__file__).parents[1]
    installed = package / "starter"
    return installed if installed.is_dir() else package.parent / "workflows"


def example_targets() -> Path:
    """The file with the namespaces and workloads of two teams, installed or in the source tree."""
    package = Path(__file__).parents[1]
    installed = package / "example" / "targets.yaml"
    return installed if installed.is_file() else package.parents[1] / "examples" / "targets.yaml"
