"""What the tests of packages share: one wheel with its source distribution, and one environment it is installed in.

The first tier takes the pinned packages from the environment of the tests; a package index serves the long tests.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.distributions import Distributions, build
from support.pinned import link_pinned, site_packages
from support.source_tree import ROOT, copy_source_tree

# Not in memory, as other tests' files are: environments have half a gigabyte each.
_PLACE = "/var/tmp"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Installing from a far package index takes minutes."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A directory that any user may enter."""
    with tempfile.TemporaryDirectory(prefix="formulary-packages-", dir=_PLACE) as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


@pytest.fixture(scope="session")
def built(place: Path) -> Distributions:
    """Made in a copy of the source tree, which has no model at first, and files that others may not read."""
    tree = copy_source_tree(place / "built")
    for file in tree.rglob("*.py"):
        file.chmod(0o600)
    return build(tree)


@pytest.fixture(scope="session", params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["linked", "fetched"])
def fetched(request: pytest.FixtureRequest) -> bool:
    """Whether the pinned packages come from a package index."""
    return bool(request.param)


@pytest.fixture(scope="session")
def installed(place: Path, built: Distributions, fetched: bool) -> Path:
    """An environment with the pinned packages and the wheel, and nothing else."""
    environment = place / ("installed-fetched" if fetched else "installed")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip: list[str | Path] = [
        environment / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
    ]
    lock = ROOT / "requirements" / "run.txt"
    if fetched:
        subprocess.run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", lock], check=True)
    else:
        link_pinned(lock, site_packages(environment))
    subprocess.run([*pip, "--no-index", built.wheel], check=True)
    return environment
