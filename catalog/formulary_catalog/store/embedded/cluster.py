"""The data directory of the embedded PostgreSQL: what may be in it, who owns it, how it comes into being (DESIGN 10).

`cluster` holds PostgreSQL's files and its socket, `lock` is held while a process owns the directory, `postgres.log`
is the log of this run and `postgres.log.1` of the one before.

Anyone who can enter `cluster` is trusted as any database user. It belongs to one account and is closed to all others.
Where the account that root runs PostgreSQL as cannot enter the directories above, as under root's home, the server is
started inside the cluster and gets it as its working directory, which needs no way in.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from formulary_catalog.errors import DirectoryInUse, StartupError
from formulary_catalog.store.embedded.account import ROOTS_PLACE, Account, make_passable, require_name
from formulary_catalog.store.embedded.programs import MAJOR, Programs

TEMPLATE = Path(sys.prefix, "share", "formulary", "cluster.tar.gz")
"""A cluster that `embedded.template` has made for an image without a shell."""
_OURS = {"cluster", "lock", "postgres.log", "postgres.log.1", "lost+found"}
_UNFINISHED = "cluster.new-"
_NEEDED_MIB = 64
_END_SECONDS = 10.0
_WORKING_DIRECTORY = Path("/proc/self/cwd")
# A socket's path has at most 103 bytes on macOS, 107 on Linux; "/.s.PGSQL.5432" takes 14.
_SOCKET_DIR = re.compile(r"[\w./-]{1,89}", re.ASCII)
_HOLDER_TRIES = 100  # of 10 ms
_FIRST_STATEMENTS = b"create extension vector;\ncreate database formulary;\n"


class Cluster:
    """PostgreSQL's files under a data directory, and the means to run its programs on them.

    `path` is PostgreSQL's own data directory and `socket_dir` the private directory of its socket. Every method
    raises StartupError, or OSError where the system refuses, both to be shown to the user.
    """

    def __init__(self, *, home: Path, copies: Path = ROOTS_PLACE, template: Path = TEMPLATE) -> None:
        self._template = template
        self._programs = Programs(copies=copies)
        try:
            self.home = home.expanduser().resolve()
        except RuntimeError:
            raise StartupError(
                f"data directory {home} cannot be found: `~` names no home directory here; give its whole path"
            ) from None
        self.path = self.home / "cluster"
        self.log = self.home / "postgres.log"

    @cached_property
    def socket_dir(self) -> Path:
        """The cluster itself if a socket in it can be named and reached, else a private directory named after it."""
        account = self.account()
        private = f"formulary-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]}"
        for directory in (self.path, Path(tempfile.gettempdir()).resolve() / private, Path("/tmp").resolve() / private):
            if _SOCKET_DIR.fullmatch(str(directory)) and not (account and account.barrier(directory.parent)):
                return directory
        raise StartupError(
            f"there is no place for PostgreSQL's socket: {tempfile.gettempdir()} and /tmp are closed to its user or "
            "have names that are too long; set TMPDIR to another directory, or name a server with --database-url"
        )

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        """Turn the system's refusals into StartupError."""
        try:
            yield
        except OSError as error:
            raise StartupError(
                f"data directory {self.home} cannot be used: {error}; choose a --data-dir that this user can write"
            ) from error

    def acquire(self) -> int:
        """Check that the directory is ours or empty, and own it: a descriptor that holds the lock until it is closed.

        The lock ends with its holder, so a killed process leaves nothing to clean up.
        """
        if self.home.exists() and not self.home.is_dir():
            raise StartupError(f"data directory {self.home} is a file; choose another --data-dir")
        make_passable(self.home)
        if self.path.exists():
            self._check_version()
        else:
            self._check_emptiness()
        self._check_account()
        _ = self.socket_dir  # raises here, before a cluster is made, if there is no place for the socket
        self._check_space()
        return self._lock()

    def prepare(self) -> None:
        """If there is no cluster, make one with the database `formulary` and the extension `vector`, all or nothing."""
        for unfinished in self.home.glob(f"{_UNFINISHED}*"):
            _end_processes(unfinished)  # initdb outlives a killed owner, and would go on writing
            shutil.rmtree(unfinished, ignore_errors=True)
        if self.path.exists():
            return
        packed = self._template.exists()
        if not (packed or self.account()):
            require_name()
        fresh = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.home))
        self._give_away(fresh)
        if packed:
            with tarfile.open(self._template) as archive:
                # Python before 3.11.4, such as Debian 12's in the image, has no filters and takes no argument for one.
                archive.extraction_filter = getattr(tarfile, "tar_filter", None)
                archive.extractall(fresh)
            for path in fresh.rglob("*"):
                self._give_away(path)
            os.sync()
        else:
            self._initialize(fresh)
        fresh.rename(self.path)
        _sync(self.home)  # else a power loss could undo the rename, and what was stored since with it

    def _initialize(self, fresh: Path) -> None:
        # This locale is the same on every system, sorts by byte and knows the case of all letters.
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        name = self.name_of(fresh)
        self._run("initdb", "-D", name, "--username=postgres", "--auth=trust", *locale, inside=fresh)
        single_user = ("--single", "-D", name, "-c", "exit_on_error=on", "template1")
        self._run("postgres", *single_user, inside=fresh, statements=_FIRST_STATEMENTS)

    def make_socket_dir(self) -> None:
        """A private, empty directory for the socket where the data directory's own path cannot hold it."""
        if self.socket_dir == self.path:
            return
        shutil.rmtree(self.socket_dir, ignore_errors=True)
        self.socket_dir.mkdir(mode=0o700)  # fails if somebody else has put something there
        self._give_away(self.socket_dir)

    def remove_socket_dir(self) -> None:
        """Remove what `make_socket_dir` made; only for the holder of the lock."""
        if self.socket_dir != self.path:
            shutil.rmtree(self.socket_dir, ignore_errors=True)

    def new_log(self) -> BinaryIO:
        """An empty log, open for the server; the log of the run before is kept next to it."""
        if self.log.exists():
            self.log.replace(self.log.with_name("postgres.log.1"))
        return open(self.log, "xb", opener=lambda path, flags: os.open(path, flags | os.O_APPEND, 0o600))

    def program(self, name: str) -> str:
        """The path of one of PostgreSQL's programs, which the account of the server can run."""
        return str(self._programs.path(name, account=self.account()))

    def name_of(self, directory: Path) -> str:
        """What to call a cluster directory before a program that is started inside it."""
        return str(_WORKING_DIRECTORY if self._is_closed() else directory)

    def process_options(self, *, inside: Path) -> dict[str, Any]:
        """Arguments for `subprocess`: the right account, out of reach of Ctrl-C, and nothing of our environment.

        PG* variables would change the server, and our own may hold secrets.
        """
        options: dict[str, Any] = {"cwd": inside, "env": {}, "start_new_session": True}
        if account := self.account():
            options |= {"user": account.uid, "group": account.gid, "extra_groups": []}
        return options

    def account(self) -> Account | None:
        """The account to run PostgreSQL as, or None for our own."""
        if os.geteuid() != 0:
            return None
        if self.path.exists() and (owner := Account.owner_of(self.path)).uid != 0:
            return owner
        return Account.nobody()

    def failure(self, *, output: str) -> StartupError:
        """The error for a cluster that does not start; `output` is what PostgreSQL had to say."""
        return StartupError(
            f"PostgreSQL did not start in {self.home}: {_reason(output)}; see {self.log}, "
            f"and if its files are damaged, move {self.path} away to begin with an empty database"
        )

    def _check_version(self) -> None:
        if not (self.path / "PG_VERSION").exists():
            raise self.failure(output="PG_VERSION is missing")
        version = (self.path / "PG_VERSION").read_text().strip()
        if version != MAJOR:
            raise StartupError(
                f"data directory {self.home} was written by PostgreSQL {version} and this is PostgreSQL {MAJOR}; "
                f"dump it with PostgreSQL {version} and restore it into a new --data-dir"
            )

    def _check_emptiness(self) -> None:
        for name in sorted(entry.name for entry in self.home.iterdir()):
            if name not in _OURS and not name.startswith(_UNFINISHED):
                raise StartupError(
                    f"data directory {self.home} holds files that are not Formulary's, such as {name}; "
                    "choose an empty or a new --data-dir"
                )

    def _check_account(self) -> None:
        if self._is_closed() and not _WORKING_DIRECTORY.exists():
            raise StartupError(
                f"data directory {self.home} is out of reach: PostgreSQL does not run as root, and the user that runs "
                "it instead cannot enter there; choose a --data-dir that all users can enter, run as another user than "
                "root, or name a server with --database-url"
            )

    def _is_closed(self) -> bool:
        """Whether the account of the server cannot get to the data directory by its path."""
        account = self.account()
        return account is not None and account.barrier(self.home) is not None

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.home).free // 1024**2
        if free < _NEEDED_MIB:
            raise StartupError(
                f"data directory {self.home} has {free} MiB of free space and PostgreSQL needs {_NEEDED_MIB} MiB; "
                "free some or choose another --data-dir"
            )

    def _lock(self) -> int:
        lock = os.open(self.home / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(lock)
            os.close(lock)
            raise DirectoryInUse(
                f"data directory {self.home} is in use by {holder} (formulary up); stop it or choose another "
                "--data-dir",
                holder=holder,
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        return lock

    def _run(self, program: str, *arguments: str, inside: Path, statements: bytes = b"") -> None:
        done = subprocess.run(
            [self.program(program), *arguments],
            input=statements,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **self.process_options(inside=inside),
        )
        if done.returncode != 0:
            output = done.stdout.decode(errors="replace")
            raise StartupError(
                f"data directory {self.home} could not be set up: {_reason(output)}; "
                "put that right or choose another --data-dir"
            )

    def _give_away(self, directory: Path) -> None:
        if account := self.account():
            account.own(directory)


def _holder(lock: int) -> str:
    """The process that holds the lock. It writes its id a moment after it got the lock; before, an old id is there."""
    for _ in range(_HOLDER_TRIES):
        number = os.pread(lock, 20, 0).decode()
        if number.isdecimal() and psutil.pid_exists(int(number)):
            return f"process {number}"
        time.sleep(0.01)
    return "another process"


def _end_processes(directory: Path) -> None:
    """Kill what works in the directory, and wait until it is gone."""
    working = [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(directory)]
    for process in working:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(working, timeout=_END_SECONDS)


def _reason(output: str) -> str:
    """The part of PostgreSQL's output that says what went wrong, in one line."""
    if found := re.search(r"(?:FATAL|PANIC|error):\s+(.+)", output):
        return found.group(1)
    return " ".join(output.split()) or "it gave no reason"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
