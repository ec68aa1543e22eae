"""The pinned packages in seconds: linked from the environment that runs the tests, which has them in the same versions.

As a program it takes the place of an installer: `python -m support.pinned -r LOCK … --python PYTHON`, or `--target
DIRECTORY` instead; it ignores the other options of one.
"""

import argparse
import os
import re
import shutil
from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

_PIN = re.compile(r"^[a-z0-9-]+==[^\\\n]+", re.MULTILINE)


def pins(lock: Path) -> list[Requirement]:
    """What a lock pins for this platform."""
    found = map(Requirement, _PIN.findall(lock.read_text()))
    return [each for each in found if each.marker is None or each.marker.evaluate()]


def link_pinned(lock: Path, directory: Path) -> None:
    """Put the packages that a lock pins into a directory, with what is compiled of them; programs are left out."""
    for pin in pins(lock):
        found = distribution(pin.name)
        assert pin.specifier.contains(found.version), f"{found.version} is here instead of {pin}: run `make setup`"
        for file in found.files or ():
            if ".." in file.parts:
                continue
            source = Path(str(found.locate_file(file)))
            for each in (source, Path(cache_from_source(source)) if source.suffix == ".py" else source):
                target = directory / each.relative_to(source.parents[len(file.parts) - 1])
                if each.exists() and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _link(each, target)


def site_packages(environment: Path) -> Path:
    """Where an environment has its packages."""
    return next(environment.glob("lib/python*/site-packages"))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-r", dest="locks", type=Path, action="append")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--target", type=Path)
    wanted, _ = parser.parse_known_args()
    for lock in wanted.locks:
        link_pinned(lock, wanted.target or site_packages(wanted.python.parents[1]))


if __name__ == "__main__":
    main()
