"""The processes inside a node: started with a log each, watched until something is ready, stopped one by one."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_READY_SECONDS = 120.0
_POLL_SECONDS = 0.1
_END_OF_LOG = 2000


class Processes:
    """What runs in a node. Its own `init` ends with the node, and all that it started with it."""

    def __init__(self, home: Path) -> None:
        self._logs = home / "logs"
        self._logs.mkdir()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str | Path) -> None:
        """Start a process whose output goes to a log of its name."""
        with (self._logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, name: str) -> None:
        """End a process, and wait until it has."""
        process = self._running.pop(name)
        process.terminate()
        process.wait()

    def wait_until(self, is_ready: Callable[[], bool], *, what: str, by: str) -> None:
        """Wait for what process `by` brings. Raises RuntimeError with the end of its log if it ends or is too slow."""
        until = time.monotonic() + _READY_SECONDS
        while not is_ready():
            ended = self._running[by].poll()
            if ended is not None or time.monotonic() > until:
                log = (self._logs / f"{by}.log").read_text(errors="replace")[-_END_OF_LOG:]
                raise RuntimeError(f"{what} is not ready; {by} ended with {ended}:\n{log}")
            time.sleep(_POLL_SECONDS)


def succeeds(*command: str | Path) -> bool:
    """Whether a command ends with 0."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def run(*command: str | Path, input: str = "") -> str:
    """What a command prints. Raises RuntimeError with its errors unless it ends with 0."""
    done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-_END_OF_LOG:]}")
    return done.stdout
