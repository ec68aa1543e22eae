"""`make run` as a newcomer meets it: a fresh clone, below a home directory that is closed to all others."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.control_plane import free_port
from support.source_tree import ROOT, copy_source_tree, newcomers_environment, pip_cache, started
from support.waiting import wait_until

_PLAIN_USER = pwd.getpwnam("nobody").pw_uid
_LINKING_UV = f"#!/bin/sh\nPYTHONPATH='{ROOT}/tests' exec '{sys.executable}' -m support.pinned \"$@\"\n"


@pytest.fixture
def home(place: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A home directory of mode 700, whose name has a space and a letter outside ASCII; no process is left in it."""
    directory = place / f"höme of {request.node.name}"
    directory.mkdir(mode=0o700)
    yield directory
    wait_until(lambda: not _working_below(directory), what="everything that was started there to end")


@pytest.mark.smoke
def test_it_shows_a_first_search_from_a_closed_home_and_ends_with_control_c(
    home: Path, place: Path, fetched: bool
) -> None:
    tree = copy_source_tree(home / "formulary", with_model=not fetched)
    # Root's own data directory belongs to the machine, and only downloads are shared with other runs.
    of_this_run = {"FORMULARY_DATA_DIR": str(place / f"data of {home.name}"), "PIP_CACHE_DIR": pip_cache()}
    if not fetched:
        uv = home / "bin" / "uv"
        uv.parent.mkdir()
        uv.write_text(_LINKING_UV)
        uv.chmod(0o700)
        of_this_run["PATH"] = f"{uv.parent}:{os.environ['PATH']}"

    _show_first_search(tree, newcomers_environment(home, **of_this_run))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as another user")
def test_it_does_so_for_a_plain_user_too(home: Path) -> None:
    python = _python_for_plain_user()
    if python is None:
        pytest.skip("no supported Python with venv that a plain user can reach")
    tree = copy_source_tree(home / "formulary")
    for path in (home, *home.rglob("*")):
        os.chown(path, _PLAIN_USER, _PLAIN_USER)
    environment = newcomers_environment(home, PATH="/usr/local/bin:/usr/bin:/bin")

    _show_first_search(tree, environment, f"PYTHON={python}", user=_PLAIN_USER)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pythons": ["3.98", "3.99"]}, "is not supported: not every dependency has a build for it. Name CPython 3.98"),
        ({"at_least": "99.0"}, "is not supported. The oldest supported systems are Linux x86-64 (glibc 99.0)"),
    ],
    ids=["python", "machine"],
)
@pytest.mark.smoke
def test_where_it_cannot_run_it_says_so_in_one_line_and_installs_nothing(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    tree = copy_source_tree(tmp_path)
    answers = tree / "requirements" / "platforms.json"
    supported = json.loads(answers.read_text())
    supported |= {name: value for name, value in change.items() if name in supported}
    for platform in supported["platforms"]:
        platform |= {name: value for name, value in change.items() if platform.get(name)}
    answers.write_text(json.dumps(supported))

    command = ["make", "--silent", "run", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tree, env=newcomers_environment(tmp_path), capture_output=True, text=True)

    first, *rest = done.stderr.splitlines()
    assert said in first
    assert [line for line in rest if not line.startswith("make:")] == []
    assert done.stdout == ""
    assert done.returncode != 0
    assert not (tree / ".venv").exists()


def _show_first_search(tree: Path, environment: dict[str, str], *options: str, user: int | None = None) -> None:
    with started(
        ["make", "run", *(options or [f"PYTHON={sys.executable}"])],
        directory=tree,
        environment=environment | {"FORMULARY_PORT": str(free_port())},
        printed_to=tree.parents[1] / f"printed by {user or 'root'}",
        user=user,
    ) as make:
        printed = make.wait_for("until Ctrl-C. In another terminal")
        make.press_control_c()

    assert "mode hybrid" in printed
    assert "oom-raise-memory-limit" in printed.partition("formulary search")[2]
    assert "Traceback" not in make.printed()


def _python_for_plain_user() -> str | None:
    """A Python that the set-up accepts, found as the plain user."""
    for python in (shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"), sys.executable):
        check = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
        try:
            subprocess.run(
                [python or "python3", "-c", check], check=True, cwd="/", user=_PLAIN_USER, extra_groups=[], timeout=60
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return None


def _working_below(directory: Path) -> list[object]:
    running = psutil.process_iter(["name", "cwd"])
    return [process.info for process in running if (process.info["cwd"] or "").startswith(str(directory))]
