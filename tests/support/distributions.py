"""Wheel and source distribution, as `make dist` makes them."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.source_tree import newcomers_environment


@dataclass(frozen=True)
class Distributions:
    """The two files."""

    wheel: Path
    source: Path


def build(tree: Path, *, umask: int = -1) -> Distributions:
    """Build both in a source tree; its `dist` must not be there yet."""
    command = [sys.executable, "-m", "build", "--no-isolation"]
    environment = newcomers_environment(Path.home())
    done = subprocess.run(command, cwd=tree, env=environment, umask=umask, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return Distributions(wheel=next(tree.glob("dist/*.whl")), source=next(tree.glob("dist/*.tar.gz")))
