"""From nothing to the first answer: seconds and megabytes of `make run`, and of the wheel with `formulary up`.

Each way starts with empty caches and is shown a first search twice: the second time everything is installed, and the
data is there. The seconds include downloads, and so belong to the package index, too.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from goals import Goal, goals_table
from support.control_plane import free_port
from support.distributions import build
from support.source_tree import ROOT, copy_source_tree, newcomers_environment

GOAL_FIRST_SECONDS, GOAL_AGAIN_SECONDS, GOAL_SILENCE_SECONDS, GOAL_MEGABYTES = 60, 15, 5, 750
_SHOWN = "until Ctrl-C. In another terminal"
# On disk: environments of half a gigabyte each would be made faster in memory than they are.
_PLACE = "/var/tmp"
_MAKE_RUN = ("make", "run", f"PYTHON={sys.executable}")
_SHOW = str(ROOT / "scripts" / "run.sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Seconds until a search is shown, the first time and again; the longest without a line; megabytes on disk."""

    name: str
    first: float
    again: float
    silence: float
    megabytes: float


def measured() -> Iterator[Way]:
    """Each way, one after the other."""
    without_uv = os.pathsep.join(
        directory for directory in os.get_exec_path() if not os.access(Path(directory, "uv"), os.X_OK)
    )
    yield _measure("make run, pip", make=_source_tree, again=_MAKE_RUN, path=without_uv)
    if shutil.which("uv"):
        yield _measure("make run, uv", make=_source_tree, again=_MAKE_RUN, path=os.environ["PATH"])
    yield _measure("pip install, formulary up", make=_wheel, again=("bash", _SHOW), path=without_uv)


def _source_tree(directory: Path) -> Sequence[str]:
    copy_source_tree(directory)
    return _MAKE_RUN


def _wheel(directory: Path) -> Sequence[str]:
    wheel = build(copy_source_tree(directory.parent / "source")).wheel
    install = f"'{sys.executable}' -m venv .venv && .venv/bin/pip install --disable-pip-version-check '{wheel}'"
    return "sh", "-ec", f"{install} && exec bash '{_SHOW}'"


def _measure(name: str, *, make: Callable[[Path], Sequence[str]], again: Sequence[str], path: str) -> Way:
    with tempfile.TemporaryDirectory(prefix="formulary-bench-", dir=_PLACE) as place:
        Path(place).chmod(0o711)
        directory = Path(place, "here")
        directory.mkdir()
        own = {"FORMULARY_DATA_DIR": f"{place}/data", "FORMULARY_PORT": str(free_port()), "PATH": path}
        own |= {"PIP_CACHE_DIR": f"{place}/cache", "UV_CACHE_DIR": f"{place}/cache"}
        environment = newcomers_environment(Path(place), **own)
        command = make(directory)
        with _shown(command, directory=directory, environment=environment) as (first, silence):
            pass
        with _shown(again, directory=directory, environment=environment) as (second, _):
            return Way(name=name, first=first, again=second, silence=silence, megabytes=_megabytes(directory / ".venv"))


@contextmanager
def _shown(command: Sequence[str], *, directory: Path, environment: dict[str, str]) -> Iterator[tuple[float, float]]:
    """Seconds until the command has shown a search, and the longest of them without a line; it is ended afterwards."""
    begun = last = time.perf_counter()
    silence, printed = 0.0, ""
    with subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            now = time.perf_counter()
            silence, last, printed = max(silence, now - last), now, printed + line
            if _SHOWN in line:
                break
        else:
            raise SystemExit(f"{command} ended without a search:\n{printed}")
        yield last - begun, silence
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()


def _megabytes(directory: Path) -> float:
    """What it takes on the disk."""
    return sum(file.lstat().st_blocks for file in directory.rglob("*")) * 512 / 1e6


def report(ways: Sequence[Way]) -> None:
    """Print the table, and the goals of `make run`."""
    table = Table("from empty caches", "first search shown", "again", "longest silence", "installed")
    for way in ways:
        seconds = (f"{value:.1f} s" for value in (way.first, way.again, way.silence))
        table.add_row(way.name, *seconds, f"{way.megabytes:.0f} MB")
    goals = [
        goal
        for way in ways
        if way.name.startswith("make run")
        for goal in (
            Goal(what=f"{way.name}: first search shown", measured=way.first, limit=GOAL_FIRST_SECONDS, unit=" s"),
            Goal(what=f"{way.name}: again", measured=way.again, limit=GOAL_AGAIN_SECONDS, unit=" s"),
            Goal(what=f"{way.name}: longest silence", measured=way.silence, limit=GOAL_SILENCE_SECONDS, unit=" s"),
            Goal(what=f"{way.name}: installed", measured=way.megabytes, limit=GOAL_MEGABYTES, unit=" MB"),
        )
    ]
    console = Console(width=100)
    console.print(table)
    console.print(goals_table(goals, title="from nothing to the first answer"))


def main() -> None:
    """Measure each way once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args()
    ways = list(measured())
    report(ways)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(way) for way in ways], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
