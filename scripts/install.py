"""Sets `.venv` up: `python3 install.py run` with what running needs, `install.py dev` with everything.

Both install the pinned versions of `requirements/`, checked by their hashes and without compiling anything: with uv
where it is on PATH, else with pip. What is done already is not done again. An environment whose set-up did not end is
made again from the start, as nobody knows how far an interrupted installer came. Needs the standard library only.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import bundled_model

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STATE = ENVIRONMENT / "installed.json"

_SECONDS_BETWEEN_LINES = 3.0
_LOCKED = ("--no-deps", "--require-hashes", "--only-binary", ":all:")
# Python compiles what it imports; compiling all that is installed would take longer than installing it.
_PIP_INSTALL = ("-m", "pip", "install", "--no-compile", "--no-user", "--disable-pip-version-check", "--no-input")


class InstallFailed(Exception):
    """A step failed; the message says which one, and what it printed. `program` is what ran."""

    def __init__(self, message: str, *, program: str | Path) -> None:
        super().__init__(message)
        self.program = program


def main() -> int:
    parser = argparse.ArgumentParser(prog="install.py", description="Set .venv up.")
    parser.add_argument("what", choices=("run", "dev"), help="what running needs, or everything")
    dev = parser.parse_args().what == "dev"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no installer is left running
    try:
        with _locked():
            _install(dev=dev)
    except (InstallFailed, OSError) as error:
        print(
            f"{error}\nThe set-up failed; run this again to start over. Downloads stay in the cache.", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        print("The set-up was interrupted; the next run starts over. Downloads stay in the cache.", file=sys.stderr)
        return 130
    return 0


def _install(*, dev: bool) -> None:
    uv = shutil.which("uv")
    if uv is None:
        return Installation(uv=None).bring_up_to_date(dev=dev)
    try:
        Installation(uv=uv).bring_up_to_date(dev=dev)
    except InstallFailed as error:  # for one, where the package index is configured for pip only
        if error.program != uv:
            raise
        print(f"{error}\nuv failed; starting over with pip", flush=True)
        Installation(uv=None).bring_up_to_date(dev=dev)


class Installation:
    """What `.venv` holds, and the steps that bring it up to date."""

    def __init__(self, *, uv: str | None) -> None:
        self._uv = uv
        self._done = _recorded()

    def bring_up_to_date(self, *, dev: bool) -> None:
        """Do the steps that are not done, or whose files have changed since. Raises `InstallFailed`."""
        started = time.monotonic()
        before = dict(self._done)
        if not before:
            self._make_environment()
        run = REQUIREMENTS / "run.txt", REQUIREMENTS / "build.txt"
        self._step("run", run, lambda: self._install_locked("what running needs", *run))
        if not bundled_model.intact():
            size = bundled_model.MEGABYTES_FETCHED
            _watch(f"fetching the embedding model ({size} MB)", [PYTHON, ROOT / "scripts" / "bundled_model.py"])
        self._step("project", (ROOT / "pyproject.toml", ROOT / "hatch_build.py"), _install_project)
        if dev:
            tools, torch = REQUIREMENTS / "dev.txt", REQUIREMENTS / "torch.txt"
            self._step("dev", (tools,), lambda: self._install_locked("what developing needs", tools))
            self._step("torch", (torch,), lambda: _install_torch(torch))
        if self._done != before:
            print(f"set up in {time.monotonic() - started:.0f} s; .venv has {_megabytes(ENVIRONMENT)} MB", flush=True)

    def _step(self, name: str, files: Sequence[Path], install: Callable[[], None]) -> None:
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        if self._done.get(name) == digest:
            return
        self._done.pop(name, None)  # an interrupted step is done again
        _record(self._done)
        install()
        self._done[name] = digest
        _record(self._done)

    def _make_environment(self) -> None:
        if ENVIRONMENT.exists():
            print("removing .venv: its set-up did not end, or it was made in another way", flush=True)
            shutil.rmtree(ENVIRONMENT)
        # By Python itself also where uv is there: its own pip is needed later, and nothing is downloaded for it.
        label = f"making .venv with Python {sys.version.split()[0]} and {'uv' if self._uv else 'pip'}"
        _watch(label, [sys.executable, "-m", "venv", ENVIRONMENT])

    def _install_locked(self, what: str, *locks: Path) -> None:
        command: list[str | Path] = [PYTHON, *_PIP_INSTALL]
        if self._uv:
            command = [self._uv, "pip", "install", "--python", PYTHON]
        sources = [option for lock in locks for option in ("-r", lock)]
        _watch(f"installing {what}", [*command, *_LOCKED, *sources])


def _install_project() -> None:
    _watch(
        "installing Formulary from this directory",
        [PYTHON, *_PIP_INSTALL, "--no-index", "--no-deps", "--no-build-isolation", "--editable", "."],
    )


def _install_torch(requirements: Path) -> None:
    _watch("installing torch", [PYTHON, *_PIP_INSTALL, "--only-binary", ":all:", "-r", requirements])


def _recorded() -> dict[str, str]:
    """The finished steps; empty if the environment must be made first."""
    try:
        recorded = json.loads(STATE.read_text())
        if recorded["directory"] != str(ENVIRONMENT):  # scripts name the directory they were installed to
            return {}
        if recorded["python"] != sys.version:
            return {}
        subprocess.run([PYTHON, "-c", ""], check=True, capture_output=True)
    except (OSError, ValueError, LookupError, TypeError, subprocess.CalledProcessError):
        return {}
    return dict(recorded["steps"])


def _record(steps: dict[str, str]) -> None:
    partial = STATE.with_suffix(".partial")
    partial.write_text(json.dumps({"directory": str(ENVIRONMENT), "python": sys.version, "steps": steps}))
    partial.replace(STATE)


def _watch(label: str, command: Sequence[str | Path]) -> None:
    """Run the command; a line every few seconds says that it goes on. Raises `InstallFailed` with what it printed."""
    print(label, flush=True)
    started = time.monotonic()
    with tempfile.TemporaryFile() as printed, _downloads() as environment:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT
        )
        try:
            while (code := _wait(process)) is None:
                print(f"  {time.monotonic() - started:3.0f} s  .venv has {_megabytes(ENVIRONMENT)} MB", flush=True)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if code != 0:
            printed.seek(0)
            raise InstallFailed(
                f"{printed.read().decode(errors='replace').rstrip()}\n{label}: exit code {code}", program=command[0]
            )


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_SECONDS_BETWEEN_LINES)
    except subprocess.TimeoutExpired:
        return None


@contextmanager
def _downloads() -> Iterator[dict[str, str]]:
    """An environment in which what is being downloaded counts as a part of `.venv`."""
    if not ENVIRONMENT.exists():
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory(prefix="downloads-", dir=ENVIRONMENT) as directory:
        yield {**os.environ, "TMPDIR": directory}


def _megabytes(directory: Path) -> int:
    blocks = 0
    for parent, _, files in os.walk(directory):
        for file in files:
            try:
                blocks += os.lstat(os.path.join(parent, file)).st_blocks
            except FileNotFoundError:  # files come and go during the installation
                continue
    return blocks * 512 // 1_000_000


@contextmanager
def _locked() -> Iterator[None]:
    """One set-up at a time; a second one waits."""
    descriptor = os.open(REQUIREMENTS, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another set-up of this directory to end", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
