"""Directories of manifests: which files are found, what cannot be read, and what a watch sees."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from formulary_catalog.errors import StartupError
from formulary_catalog.loading.files import find_manifests
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.runtime.hot_reload import watch
from support.loading import Manifests, messages
from support.manifest import workflow


async def test_a_missing_directory_changes_nothing(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("a"))
    await manifests.load()
    manifests.directory.rename(manifests.directory.with_name("moved"))
    with pytest.raises(StartupError, match=r"manifests directory .* cannot be read: No such file or directory"):
        await manifests.load()
    assert await manifests.served() == {"a": "1.0.0"}


async def test_a_subdirectory_that_cannot_be_listed_is_reported_and_deletes_nothing(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("a"))
    gone = manifests.write("b.yaml", workflow("b"))
    await manifests.load()
    gone.unlink()
    _make_unlistable(manifests.directory)
    report = await manifests.load()
    shutil.rmtree(manifests.directory / "deep")
    (message,) = messages(report)
    assert message.startswith("deep/")
    assert message.endswith(": cannot be listed: File name too long; check the directory's permissions")
    assert (report.removed, await manifests.served()) == ([], {"a": "1.0.0", "b": "1.0.0"})
    assert (await manifests.load()).removed == ["formulary/b"]


def _make_unlistable(directory: Path) -> None:
    """A subdirectory whose path is longer than the system takes: not even root can list it by its path."""
    (directory / "deep").mkdir()
    descriptor = os.open(directory / "deep", os.O_RDONLY)
    for _ in range(17):
        os.mkdir("d" * 250, dir_fd=descriptor)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)


async def test_files_are_found_in_order_through_links_and_without_hidden_ones(manifests: Manifests) -> None:
    for name in ("b.yaml", "a.yml", "sub/c.json", ".hidden/d.yaml", ".e.yaml", "notes.txt"):
        manifests.write(name, workflow("x"))
    (manifests.directory / "sub" / "loop").symlink_to(manifests.directory)
    (manifests.directory / "dangling.yaml").symlink_to("nowhere.yaml")
    (manifests.directory / "z").symlink_to(manifests.directory / "sub")
    os.mkfifo(manifests.directory / "pipe.yaml")
    os.mkdir(os.fsencode(manifests.directory) + b"/\xff")
    os.rename(manifests.directory / "b.yaml", os.fsencode(manifests.directory) + b"/\xff/b.yaml")
    found = find_manifests([manifests.directory])
    names = ["a.yml", "dangling.yaml", "sub/c.json", "\N{REPLACEMENT CHARACTER}/b.yaml"]
    assert [file.name for file in found.files] == names
    assert (found.rejections, found.incomplete) == ([], False)


async def test_a_link_that_lost_its_directory_proves_nothing_of_what_was_there(manifests: Manifests) -> None:
    manifests.write("a.yaml", workflow("x"))
    (manifests.directory / "team").symlink_to("nowhere")
    (manifests.directory / "loop.yaml").symlink_to("loop.yaml")
    found = find_manifests([manifests.directory])
    assert [file.name for file in found.files] == ["a.yaml", "loop.yaml"]
    assert found.incomplete
    assert [rejection.source for rejection in found.rejections] == ["team"]


async def _next_change(reports: AsyncIterator[object]) -> LoadReport:
    """The next report that says something; bounded by the test's own time limit."""
    async for report in reports:
        if isinstance(report, LoadReport) and (report.changed or report.rejections):
            return report
    raise AssertionError("the watch ended")


async def test_the_watch_sees_added_changed_broken_and_removed_files_and_a_replaced_directory(
    manifests: Manifests,
) -> None:
    manifests.write("a.yaml", workflow("a"))
    await manifests.load()
    manifests.write("early.yaml", workflow("early"))
    async with aclosing(watch(manifests.loader, embedder=lambda: None)) as reports:
        assert (await _next_change(reports)).created == ["formulary/early@1.0.0"]
        manifests.write("a.yaml", workflow("a", version="1.1.0"))
        assert (await _next_change(reports)).updated == ["formulary/a@1.1.0"]
        (manifests.directory / "b.yaml").write_text("a: [")
        assert len((await _next_change(reports)).rejections) == 1
        (manifests.directory / "b.yaml").unlink()
        (manifests.directory / "early.yaml").unlink()
        assert (await _next_change(reports)).removed == ["formulary/early"]
        manifests.directory.rename(manifests.directory.with_name("moved"))
        manifests.write("new.yaml", workflow("new"))
        changed = await _next_change(reports)
        assert (changed.created, changed.removed) == (["formulary/new@1.0.0"], ["formulary/a"])
        manifests.write("newer.yaml", workflow("newer"))
        assert (await _next_change(reports)).created == ["formulary/newer@1.0.0"]
