"""`formulary demo`: one question, two teams, two answers, played without a cluster."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.commands import formulary_now
from support.golden import assert_golden
from support.process import FORMULARY
from support.scripts import script

SECONDS = 120
WORKFLOWS = Path(__file__).parents[3] / "catalog" / "workflows"


@pytest.fixture
def place(data_dirs: Path, tmp_path: Path) -> Iterator[Path]:
    """A directory for temporary files, of this test's own."""
    directory = data_dirs / tmp_path.name
    directory.mkdir()
    yield directory
    assert not [each for each in psutil.process_iter(["cwd"]) if str(directory) in (each.info["cwd"] or "")]


@pytest.mark.smoke
def test_the_demo_plays_the_loop_as_it_is_recorded_and_leaves_nothing(place: Path) -> None:
    recording = script("recording")
    done = formulary_now(
        "demo",
        TMPDIR=str(place),
        PATH=f"{Path(FORMULARY).parent}:{os.environ['PATH']}",
        FORMULARY_DATABASE_URL="postgresql://nobody@127.0.0.1:9/nothing",
        **recording.ENVIRONMENT,
    )

    assert done.code == 0, done.err
    told = re.sub(r"\x1b\[[\d;]*m", "", done.out)
    assert max(map(len, told.splitlines())) <= 60
    steps = re.split(r"\n\n(?=\d  )", told)
    assert [step[0] for step in steps[1:]] == ["1", "2", "3", "4", "5", "6"]
    _, free, careful, refused, _, approved, record = steps
    assert "oom-raise-memory-limit" in free
    assert "oom-raise-memory-limit" not in careful
    assert "oom-scale-out" in careful
    assert "✗ workflow 'oom-raise-memory-limit' is not found among" in refused
    assert "✓ approved, for this digest alone" in approved
    assert "not run: no cluster is connected" in approved
    assert "events of this demo, as they were written" in record
    assert list(place.iterdir()) == []
    assert_golden(recording.svg(done.out), recording.FILE)


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
        assert demo.stderr.readline().startswith("starting PostgreSQL in /")
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=SECONDS)
    finally:
        demo.kill()

    assert demo.returncode == 130
    assert list(place.iterdir()) == []
