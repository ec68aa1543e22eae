"""`formulary runbooks`: each directory is a source of its own, and nothing is replaced without a word."""

import json
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.runbooks import RunbookLoader
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.knowledge.runbooks import RunbookWriter
from support.commands import Finished, formulary


def directory(path: Path, **files: str) -> Path:
    """A directory of runbooks, by name without ending."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    return path


async def run(database: str, *arguments: str) -> Finished:
    return await formulary("runbooks", *arguments, "--database-url", database)


async def answered(database: str, *arguments: str) -> dict[str, Any]:
    done = await run(database, *arguments, "--json")
    assert done.code == 0, done.err
    said: dict[str, Any] = json.loads(done.out)
    return said


async def sources(database: str) -> dict[str, tuple[str, int]]:
    listed = await answered(database, "list")
    return {each["name"]: (each["place"], each["documents"]) for each in listed["sources"]}


async def test_two_directories_of_one_name_do_not_replace_each_other(database: str, tmp_path: Path) -> None:
    ours = directory(tmp_path / "ours" / "runbooks", disk="Remove unused images.")
    theirs = directory(tmp_path / "theirs" / "runbooks", dns="Raise the limit of CoreDNS.")
    await answered(database, "load", str(ours))
    refused = await run(database, "load", str(theirs))
    assert refused.code == 1
    assert str(ours) in refused.err
    assert "--name" in refused.err
    assert await sources(database) == {"runbooks": (str(ours), 1)}

    await answered(database, "load", str(theirs), "--name", "dns")
    assert await sources(database) == {"runbooks": (str(ours), 1), "dns": (str(theirs), 1)}


async def test_a_name_that_is_given_takes_the_place_of_the_other_directory_and_the_answer_says_so(
    database: str, tmp_path: Path
) -> None:
    ours = directory(tmp_path / "ours" / "runbooks", disk="Remove unused images.", dns="Wait.")
    theirs = directory(tmp_path / "theirs" / "runbooks", dns="Raise the limit of CoreDNS.")
    await answered(database, "load", str(ours))
    (loaded,) = (await answered(database, "load", str(theirs), "--name", "runbooks"))["directories"]
    assert (loaded["place"], loaded["place_before"]) == (str(theirs), str(ours))
    assert (loaded["added"], loaded["replaced"], loaded["removed"]) == ([], ["runbooks/dns.md"], ["runbooks/disk.md"])
    assert await sources(database) == {"runbooks": (str(theirs), 1)}


async def test_a_load_says_what_it_added_replaced_and_removed(database: str, tmp_path: Path) -> None:
    books = directory(tmp_path / "books", same="Stays.", other="Says this.", gone="Goes.")
    first = await run(database, "load", str(books))
    assert "books: 3 documents of 3 files" in first.out
    directory(books, other="Says that.", new="Comes.")
    (books / "gone.md").unlink()
    second = await run(database, "load", str(books))
    lines = [line.split() for line in second.out.splitlines()]
    for said in (["added", "books/new.md"], ["replaced", "books/other.md"], ["removed", "books/gone.md"]):
        assert said in lines


async def test_a_source_is_removed_by_its_name_and_its_name_is_free_then(database: str, tmp_path: Path) -> None:
    ours = directory(tmp_path / "ours" / "runbooks", disk="Remove unused images.")
    theirs = directory(tmp_path / "theirs" / "runbooks", dns="Raise the limit of CoreDNS.")
    await answered(database, "load", str(ours))
    assert (await answered(database, "remove", "runbooks"))["removed"] == ["runbooks/disk.md"]
    assert "No runbooks are loaded" in (await run(database, "list")).out
    await answered(database, "load", str(theirs))
    assert await sources(database) == {"runbooks": (str(theirs), 1)}


async def test_a_name_that_nothing_has_is_answered_with_those_that_there_are(database: str, tmp_path: Path) -> None:
    empty = await run(database, "remove", "books")
    assert (empty.code, "no directory is loaded" in empty.err) == (1, True)
    await answered(database, "load", str(directory(tmp_path / "books", disk="Remove unused images.")))
    missing = await run(database, "remove", "book")
    assert (missing.code, "loaded directories are: books" in missing.err) == (1, True)


@pytest.mark.parametrize("name", ["a/b", "", " ", "x" * 64, "..", "-x"])
def test_a_name_is_a_short_word(writing: Database, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 63"):
        RunbookLoader([tmp_path], writer=RunbookWriter(writing), namespace="formulary", name=name)


@pytest.mark.parametrize("name", [None, "books"])
def test_one_name_is_not_for_two_directories(writing: Database, tmp_path: Path, name: str | None) -> None:
    both = [tmp_path / parent / "books" for parent in "ab"]
    with pytest.raises(InvalidInput, match="one by one"):
        RunbookLoader(both, writer=RunbookWriter(writing), namespace="formulary", name=name)


async def test_a_directory_without_runbooks_is_an_error_and_removes_nothing(database: str, tmp_path: Path) -> None:
    books = directory(tmp_path / "books", disk="Remove unused images.")
    await answered(database, "load", str(books))
    (books / "disk.md").rename(books / "disk.adoc")
    (books / "notes.json").write_text("{}")
    refused = await run(database, "load", str(books))
    assert refused.code == 1
    assert "books: holds no runbook (skipped: disk.adoc, notes.json); runbooks are Markdown" in refused.err
    assert (await sources(database))["books"][1] == 1
