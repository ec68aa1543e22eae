"""The page of benchmarks shows results, each with when, of what and on how busy a machine it was measured."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from support.scripts import script


@pytest.fixture
def benchmarks(tmp_path: Path) -> ModuleType:
    """The script as a module that reads and writes in a directory of its own."""
    module = script("benchmarks")
    for name, place in (("RESULTS", ""), ("FILES", "files"), ("PAGE", "page.md")):
        setattr(module, name, tmp_path / place)
    return module


def _measured(results: Path, name: str, *, commit: str = "abc", ended: bool = True) -> None:
    run = {"commit": commit, "date": "2026-01-02 03:04", "load": "0.10, 0.20, 0.30", "stolen": 7, "bfloat16": True}
    (results / f"{name}.txt").write_text(f"table of {name}\n")
    (results / f"{name}.json").write_text("{}")
    if ended:
        (results / f"{name}.run").write_text(json.dumps(run))


def test_each_result_tells_when_it_was_measured(benchmarks: ModuleType, tmp_path: Path) -> None:
    _measured(tmp_path, "startup")
    _measured(tmp_path, "phases", commit="def")

    benchmarks.main()

    written = (tmp_path / "page.md").read_text()
    assert (
        written.count(", 2026-01-02 03:04 UTC; load before: 0.10, 0.20, 0.30; taken by others: 7 %; with bfloat16.")
        == 2
    )
    assert written.index("Commit `abc`") < written.index("Commit `def`")
    assert written.index("](benchmarks/startup.txt)") < written.index("](benchmarks/phases.txt)")
    assert (tmp_path / "files" / "startup.txt").read_text() == "table of startup\n"


def test_a_section_stays_until_it_is_measured_again(benchmarks: ModuleType, tmp_path: Path) -> None:
    _measured(tmp_path, "startup")
    _measured(tmp_path, "phases")
    benchmarks.main()
    (tmp_path / "startup.txt").unlink()
    _measured(tmp_path, "phases", commit="def")

    benchmarks.main()
    once = (tmp_path / "page.md").read_text()
    benchmarks.main()

    assert once == (tmp_path / "page.md").read_text()
    assert once.index("Commit `abc`") < once.index("](benchmarks/startup.txt)") < once.index("Commit `def`")
    assert once.count("\n## ") == 2
    assert "Not measured for this page: What searches find;" in once
    assert "Memory and start-up;" not in once


def test_what_is_written_by_hand_stays_at_the_end(benchmarks: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"# Old\n\n{benchmarks.BY_HAND}## Where the time goes\n\nMost of it waits.\n")
    _measured(tmp_path, "startup")

    benchmarks.main()

    written = (tmp_path / "page.md").read_text()
    assert written.endswith(f".\n\n{benchmarks.BY_HAND}## Where the time goes\n\nMost of it waits.\n")
    assert written.count("\n## ") == 2


def test_no_benchmark_has_two_sections(benchmarks: ModuleType) -> None:
    names = [each.name for each in benchmarks.SECTIONS]

    assert sorted(names) == sorted(set(names))


def test_a_result_of_what_is_in_no_commit_makes_no_page(benchmarks: ModuleType, tmp_path: Path) -> None:
    _measured(tmp_path, "startup")
    _measured(tmp_path, "phases", commit="def-dirty")

    with pytest.raises(SystemExit, match="in no commit: phases;"):
        benchmarks.main()

    assert not (tmp_path / "page.md").exists()


def test_a_benchmark_that_did_not_end_makes_no_page(benchmarks: ModuleType, tmp_path: Path) -> None:
    _measured(tmp_path, "startup", ended=False)

    with pytest.raises(SystemExit, match="startup has no numbers"):
        benchmarks.main()


def test_nothing_measured_makes_no_page(benchmarks: ModuleType) -> None:
    with pytest.raises(SystemExit, match="nothing was measured"):
        benchmarks.main()
