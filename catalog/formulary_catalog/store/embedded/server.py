"""PostgreSQL of our own, for `formulary up` without a database server at hand (DESIGN sections 10 and 11)."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import platformdirs
import psutil

from formulary_catalog.errors import StartupError
from formulary_catalog.store.embedded.account import ROOTS_PLACE
from formulary_catalog.store.embedded.cluster import TEMPLATE, Cluster

_START_SECONDS = 60.0  # a crash-recovery start replays the log first
_STOP_SECONDS = 20.0  # its last checkpoint writes what is in memory
_LEAVE_SECONDS = 1.5  # a session that is left then looks at no signal that it could answer
_KILL_SECONDS = 10.0
_PORT = "5432"  # only names the socket's file, but a PGPORT in the environment would change it
_SETTINGS = {
    "port": _PORT,
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "cluster_name": "formulary",
    "max_connections": "50",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Errors go to the client that made them; in the log they would make it grow and spell out stored values.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
}
# Its standard input ends when our process does, in whatever way, and then it asks the server to shut down.
# An image without a shell needs none: its end is the end of the container, and of all that runs there.
_GUARD = 'read -r line; kill -INT "$1"'
_SHELL = Path("/bin/sh")
# A session may build texts and arrays of any size; no setting of PostgreSQL bounds that. Soft, and the same process.
_LIMITED = 'ulimit -S -d "$0" 2>/dev/null; exec "$@"'
_SESSION = " [local] "
_SESSION_MEMORY = 512 * 1024**2


class EmbeddedPostgres:
    """One PostgreSQL of our own in a data directory. Synchronous; callers in asyncio use a thread.

    One process at a time owns a data directory, and the server ends with its owner, even one that is killed. What an
    earlier run left behind is cleared at start; after a crash PostgreSQL recovers what was committed.

    `shared_buffers` is PostgreSQL's setting, enough for some 100,000 workflows: searches of what it holds do not wait
    for the file system. What is not used takes no memory. `session_memory`, in bytes, is what each of its processes may
    take beside that, where the system can bound it; a statement that wants more fails. `copies` is where root keeps
    copies of PostgreSQL's programs if the account of the server cannot reach the Python environment. `template` is the
    archive of a cluster that a new directory begins with, where there is one.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        shared_buffers: str = "512MB",
        session_memory: int | None = _SESSION_MEMORY,
        copies: Path = ROOTS_PLACE,
        template: Path = TEMPLATE,
    ) -> None:
        self._shared_buffers = shared_buffers
        self._session_memory = session_memory
        self._cluster = Cluster(home=data_dir, copies=copies, template=template)
        self._mutex = threading.RLock()
        self._lock: int | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Own the data directory, set it up if it is new, start the server and wait until it answers.

        Raises StartupError if the directory is in use, is not ours or cannot be written, if the programs are missing,
        or if the server is not ready within 60 s.
        """
        with self._mutex, self._cluster.explained_errors():
            self._lock = self._cluster.acquire()
            try:
                self._cluster.prepare()
                self._launch()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Shut down, ending open connections, and release the data directory. May be called again."""
        with self._mutex:
            if self._lock is None:  # nothing here is ours, not even after a start that was refused
                return
            self._halt()
            self._cluster.remove_socket_dir()
            os.close(self._lock)
            self._lock = None

    def restart_if_dead(self) -> bool:
        """Start the server again if it died under us, and say whether it had. Raises StartupError as `start` does."""
        with self._mutex, self._cluster.explained_errors():
            if self._lock is None or (self._server and self._server.poll() is None):
                return False
            self._halt()
            self._launch()
            return True

    def dsn(self, *, user: str = "postgres", database: str = "formulary") -> str:
        """The address, as asyncpg, SQLAlchemy and libpq take it; a restart does not change it."""
        path = f"{quote(user, safe='')}@/{quote(database, safe='')}"
        return f"postgresql://{path}?host={self._cluster.socket_dir}&port={_PORT}"

    def _launch(self) -> None:
        self._cluster.make_socket_dir()
        self._clear_leftovers()
        settings = {
            **_SETTINGS,
            "shared_buffers": self._shared_buffers,
            "unix_socket_directories": str(self._cluster.socket_dir),
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        process_options = self._cluster.process_options(inside=self._cluster.path)
        with self._cluster.new_log() as log:
            program = [self._cluster.program("postgres"), "-D", self._cluster.name_of(self._cluster.path), *options]
            if _SHELL.exists():
                limit = "unlimited" if self._session_memory is None else str(self._session_memory // 1024)
                program = [str(_SHELL), "-c", _LIMITED, limit, *program]
            self._server = subprocess.Popen(
                program,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **process_options,
            )
        if _SHELL.exists():
            self._guard = self._start_guard(self._server, options=process_options)
        else:
            _limit_memory(self._server, limit=self._session_memory)
        self._await_ready(self._server)

    @staticmethod
    def _start_guard(server: subprocess.Popen[bytes], *, options: dict[str, Any]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [_SHELL, "-c", _GUARD, "formulary-guard", str(server.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **options,
        )

    def _await_ready(self, server: subprocess.Popen[bytes]) -> None:
        _wait_until(lambda: server.poll() is not None or self._is_ready(), seconds=_START_SECONDS)
        if server.poll() is not None:
            raise self._cluster.failure(output=self._cluster.log.read_text(errors="replace"))
        if not self._is_ready():
            raise self._cluster.failure(output=f"it was not ready after {_START_SECONDS:.0f} s")

    def _is_ready(self) -> bool:
        with suppress(FileNotFoundError):
            return self._pid_file.read_bytes().rstrip().endswith(b"ready")
        return False

    def _halt(self) -> None:
        if self._guard:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        if self._server:
            self._server.send_signal(signal.SIGINT)  # fast shutdown: does not wait for clients to leave
            if not (self._has_ended(within=_LEAVE_SECONDS) or self._has_sessions()):
                self._has_ended(within=_STOP_SECONDS)
            self._server.send_signal(signal.SIGQUIT)  # immediate; the next start recovers what was committed
            self._server.wait()
            self._server = None

    def _has_ended(self, *, within: float) -> bool:
        assert self._server is not None
        with suppress(subprocess.TimeoutExpired):
            self._server.wait(within)
        return self._server.poll() is not None

    def _has_sessions(self) -> bool:
        """Whether processes of clients are left, which PostgreSQL names after their user, database and address."""
        assert self._server is not None
        with suppress(psutil.Error):
            children = psutil.Process(self._server.pid).children()
            return any(_SESSION in " ".join(child.cmdline()) for child in children)
        return False

    def _clear_leftovers(self) -> None:
        """End the server of an earlier run and its children, and remove its traces.

        PostgreSQL refuses to start where the process id in an old pid file has gone to another process, or where a
        power loss left the file empty. We hold the lock and see that no server is left, so the files mean nothing.
        """
        for order, seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
            _signal_outermost(self._leftovers(), order)
            if _wait_until(lambda: not self._leftovers(), seconds=seconds):
                break
        else:
            raise self._cluster.failure(output="a server of an earlier run does not end, even when killed")
        self._pid_file.unlink(missing_ok=True)
        (self._cluster.socket_dir / f".s.PGSQL.{_PORT}.lock").unlink(missing_ok=True)

    def _leftovers(self) -> list[psutil.Process]:
        """The processes of any server on this cluster, also of one started elsewhere: it is their working directory."""
        here = {"name": "postgres", "cwd": str(self._cluster.path)}
        return [process for process in psutil.process_iter([*here]) if process.info == here]

    @property
    def _pid_file(self) -> Path:
        return self._cluster.path / "postmaster.pid"


def default_data_dir() -> Path:
    """The data directory without --data-dir; for root a place that the server's own account can reach.

    Raises:
        StartupError: our user has no home directory.
    """
    if os.geteuid() == 0:
        return ROOTS_PLACE / "postgres"
    try:
        return platformdirs.user_data_path("formulary").expanduser() / "postgres"
    except RuntimeError as error:
        raise StartupError(f"user id {os.geteuid()} has no home directory; set HOME or choose a --data-dir") from error


def _limit_memory(server: subprocess.Popen[bytes], *, limit: int | None) -> None:
    """Bound what each session may take, in bytes, where the system can: they inherit it from the server.

    Not for a server of another account, whose limits not even root may set in every container.
    """
    if limit is not None and sys.platform == "linux":
        with suppress(OSError):  # it has ended, which is reported to who waits for it
            hard = resource.prlimit(server.pid, resource.RLIMIT_DATA)[1]
            least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.prlimit(server.pid, resource.RLIMIT_DATA, (least, hard))


def _signal_outermost(processes: list[psutil.Process], order: signal.Signals) -> None:
    """Signal those whose parent is not among them: a server ends its own children, and they end when it is gone."""
    known = {process.pid for process in processes}
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.ppid() not in known:
                process.send_signal(order)


def _wait_until(condition: Callable[[], bool], *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
