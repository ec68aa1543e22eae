"""`formulary demo`: what an incident changes, shown without a cluster."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.commands import formulary_now
from support.process import FORMULARY

SECONDS = 120
WORKFLOWS = Path(__file__).parents[3] / "catalog" / "workflows"


@pytest.fixture
def place(data_dirs: Path, tmp_path: Path) -> Iterator[Path]:
    """A directory for temporary files, of this test's own."""
    directory = data_dirs / tmp_path.name
    directory.mkdir()
    yield directory
    assert not [each for each in psutil.process_iter(["cwd"]) if str(directory) in (each.info["cwd"] or "")]


def test_the_demo_shows_both_searches_and_the_story_and_leaves_nothing(place: Path) -> None:
    done = formulary_now("demo", TMPDIR=str(place), FORMULARY_DATABASE_URL="postgresql://nobody@127.0.0.1:9/nothing")

    assert done.code == 0, done.err
    commands = [line for line in done.out.splitlines() if line.startswith("$ ")]
    assert commands == [
        '$ formulary search "OOMKilled critical" --top-k 5',
        '$ formulary search "OOMKilled critical" --top-k 5 --remediation-id rr-checkout-oom',
        "$ formulary trace show rr-checkout-oom",
    ]
    everywhere, constrained, story = done.out.split("\n$ ")[1:]
    assert "5 of " in everywhere
    assert "oom-restart-leaking-process@1.1.0" in everywhere
    assert "1 workflow for" in constrained
    assert "checkout-oom-shed-carts@1.0.0" in constrained
    assert "made for this incident's" in constrained
    assert "searched for “OOMKilled critical”: 1 allowed" in story
    assert "no-restart" not in story
    assert "starting PostgreSQL" in done.err
    assert list(place.iterdir()) == []


def test_a_directory_that_holds_something_is_left_alone(place: Path) -> None:
    kept = place / "catalog"
    kept.mkdir()
    (kept / "file").touch()

    done = formulary_now("demo", "--data-dir", str(kept))

    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"formulary: {kept} is there already, and the demo loads a catalog of its own")
    assert [each.name for each in kept.iterdir()] == ["file"]


@pytest.mark.parametrize("command", [["demo"], ["test", str(WORKFLOWS)]], ids=["demo", "test"])
def test_ctrl_c_stops_what_has_a_database_of_its_own_and_leaves_nothing(place: Path, command: list[str]) -> None:
    demo = subprocess.Popen(
        [FORMULARY, *command],
        env=os.environ | {"TMPDIR": str(place)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert demo.stderr is not None
        assert demo.stderr.readline() == "starting PostgreSQL\n"
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=SECONDS)
    finally:
        demo.kill()

    assert demo.returncode == 130
    assert list(place.iterdir()) == []
