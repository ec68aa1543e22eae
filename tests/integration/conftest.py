"""Places that the embedded PostgreSQL starts in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.embedded import made_home, passable_directory


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that all users can pass, unlike pytest's own; nothing may run in it when the test is over."""
    with passable_directory() as directory:
        yield directory


@pytest.fixture
def copies(place: Path) -> Path:
    """Where this test's copies of the programs go; not there yet. That of the machine may serve others meanwhile."""
    return place / "var" / "formulary"


@pytest.fixture
def closed(place: Path) -> Path:
    """A home directory of mode 700, with a Python environment that has PostgreSQL's programs."""
    return made_home(place / "home")
