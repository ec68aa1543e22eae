"""Finds out where Formulary installs without compiling: `make platforms` writes it to `requirements/platforms.json`.

Each platform is asked with uv whether every package of `requirements/run.txt` has a wheel there, for every Python that
`pyproject.toml` names. The check before installing (`scripts/supported.py`) and `docs/install.md` have
their answer from the file.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lock import PROJECT, REQUIREMENTS, uv_program

ANSWERS = REQUIREMENTS / "platforms.json"
_RUN = REQUIREMENTS / "run.txt"
_PYTHON_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_WITHOUT_WHEEL = re.compile(r"[Bb]ecause ([\w.-]+)(?:\{[^}]*\})?==\S+ has no")


@dataclass(frozen=True)
class Asked:
    """One kind of machine: how Python names it, and the releases of its C library or system, oldest first."""

    name: str
    system: str
    machine: str
    library: str
    releases: Sequence[str]
    uv_name: str
    """With `{}` for the release, where uv's names have it."""


ASKED = (
    Asked("Linux x86-64", "Linux", "x86_64", "glibc", ("2.17", "2.28", "2.31", "2.35", "2.39"), "x86_64-manylinux_{}"),
    Asked("Linux arm64", "Linux", "aarch64", "glibc", ("2.17", "2.28", "2.31", "2.35", "2.39"), "aarch64-manylinux_{}"),
    Asked("macOS arm64", "Darwin", "arm64", "macOS", ("11.0", "13.0", "14.0", "15.0"), "aarch64-apple-darwin"),
    Asked("Linux x86-64, musl", "Linux", "x86_64", "musl", ("1.2",), "x86_64-unknown-linux-musl"),
    Asked("Linux arm64, musl", "Linux", "aarch64", "musl", ("1.2",), "aarch64-unknown-linux-musl"),
    Asked("macOS x86-64", "Darwin", "x86_64", "macOS", ("15.0",), "x86_64-apple-darwin"),
)


@dataclass(frozen=True)
class Answer:
    """What was found for one kind of machine."""

    name: str
    system: str
    machine: str
    library: str
    at_least: str | None
    """The oldest release with wheels of everything; None if there is none."""
    missing: Sequence[str]
    """Packages without a wheel: on the release before that, or at all."""


def main() -> int:
    pythons = _PYTHON_CLASSIFIER.findall("\n".join(tomllib.loads(PROJECT.read_text())["project"]["classifiers"]))
    with uv_program() as uv, tempfile.TemporaryDirectory() as scratch:
        answers = [_answer(asked, pythons, uv=uv, scratch=Path(scratch)) for asked in ASKED]
    document = {"pythons": pythons, "platforms": [asdict(answer) for answer in answers]}
    ANSWERS.write_text(json.dumps(document, indent=2) + "\n")
    print(table())
    return 0


def table() -> str:
    """The answers as a table in Markdown."""
    document = json.loads(ANSWERS.read_text())
    pythons = f"Python {document['pythons'][0]} to {document['pythons'][-1]}"
    lines = ["| machine | supported | without a wheel for older or other ones |", "|---|---|---|"]
    for answer in (Answer(**found) for found in document["platforms"]):
        supported = f"{answer.library} {answer.at_least} or newer, {pythons}" if answer.at_least else "no"
        lines.append(f"| {answer.name} | {supported} | {', '.join(answer.missing)} |")
    return "\n".join(lines)


def _answer(asked: Asked, pythons: Sequence[str], *, uv: str, scratch: Path) -> Answer:
    missing: list[str] = []
    for release in asked.releases:
        found = sorted(
            {name for python in pythons for name in _missing(asked, release, python, uv=uv, scratch=scratch)}
        )
        print(f"{asked.name}, {asked.library} {release}: no wheel of {', '.join(found) or 'nothing'}", file=sys.stderr)
        if not found:
            return Answer(asked.name, asked.system, asked.machine, asked.library, release, missing)
        missing = found
    return Answer(asked.name, asked.system, asked.machine, asked.library, None, missing)


def _missing(asked: Asked, release: str, python: str, *, uv: str, scratch: Path) -> list[str]:
    """The packages of the lock without a wheel there; uv names one at a time."""
    missing: list[str] = []
    while True:
        rest = scratch / "rest.txt"
        rest.write_text("".join(line for line in _locked() if line.partition("==")[0] not in missing))
        command = [uv, "pip", "install", "--quiet", "--dry-run", "--no-deps", "--only-binary", ":all:"]
        command += ["--python-platform", asked.uv_name.format(release.replace(".", "_")), "--python-version", python]
        command += ["--target", str(scratch / "nowhere"), "--requirements", str(rest)]
        environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": release}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode == 0:
            return missing
        without_wheel = _WITHOUT_WHEEL.search(done.stderr)
        if without_wheel is None:
            raise SystemExit(f"uv did not answer for {asked.name} and Python {python}:\n{done.stderr}")
        missing.append(without_wheel[1])


def _locked() -> list[str]:
    """The pinned requirements, without their hashes."""
    return [line.removesuffix(" \\\n") + "\n" for line in _RUN.open() if "==" in line]


if __name__ == "__main__":
    sys.exit(main())
