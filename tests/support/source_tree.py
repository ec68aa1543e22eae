"""Copies of this source tree, and the programs that people start in one."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
MODEL = Path("catalog", "formulary_catalog", "embedding", "all-MiniLM-L6-v2")
# Installing from a far package index takes minutes.
SECONDS = 600
_OF_THIS_RUN = ("FORMULARY_", "HF_", "MAKE", "MFLAGS", "PYTEST_", "PYTHON", "TMPDIR", "VIRTUAL_ENV")


def copy_source_tree(directory: Path, *, with_model: bool = False) -> Path:
    """What a `git clone` would bring, with what is not committed yet; and on demand the embedding model, once made."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():  # deleted, and not committed yet
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    if with_model:
        shutil.copytree(ROOT / MODEL, directory / MODEL)
    return directory


def newcomers_environment(home: Path, **more: str) -> dict[str, str]:
    """The environment without what belongs to this test run; pip and proxies stay as they are set up here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_THIS_RUN)}
    outside = {name: value for name, value in kept.items() if not name.startswith("XDG_")}
    return {**outside, "HOME": str(home), **more}


def pip_cache() -> str:
    """Where pip keeps what it has downloaded, to be shared with an environment that has another home."""
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True)
class Program:
    """A program in a session of its own, as in a terminal of its own."""

    process: subprocess.Popen[bytes]
    printed_to: Path

    def printed(self) -> str:
        return self.printed_to.read_text(errors="replace")

    def wait_for(self, text: str) -> str:
        """What it has printed once that has `text`. Raises AssertionError if it ends or waits for too long."""
        wait_until(
            lambda: text in self.printed() or self.process.poll() is not None,
            what=repr(text),
            seconds=SECONDS,
            shown=self.printed,
        )
        assert text in self.printed(), self.printed()
        return self.printed()

    def press_control_c(self) -> int:
        """The exit code, once it has ended."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(60)


@contextmanager
def started(
    command: Sequence[str | Path],
    *,
    directory: Path,
    environment: Mapping[str, str],
    printed_to: Path,
    user: int | None = None,
) -> Iterator[Program]:
    """Start it, with both streams going to a file, and end it with all that it started."""
    with printed_to.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    try:
        yield Program(process, printed_to)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
