"""`formulary-operator run` and `formulary serve` as processes of their own, as a pod runs them."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from formulary_catalog.store.database.connection import Role
from support.control_plane import free_port
from support.databases import as_user
from support.runs import KEY
from support.waiting import wait_until

READY_SECONDS = 60.0
_STOP_SECONDS = 30.0


class Daemon:
    """A process of ours with probes on a port of loopback. Each start writes a log of its own."""

    def __init__(self, *command: str, environment: dict[str, str], port: int, home: Path) -> None:
        self._command = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FORMULARY_", "KUBE"))}
        self._environment = inherited | environment
        self._home = home
        self._starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{port}"

    def start(self) -> Self:
        """Start it; it is not ready yet."""
        self._starts += 1
        with self._log_file.open("wb") as log:
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._home
            )
        return self

    def wait_ready(self, *, seconds: float = READY_SECONDS) -> float:
        """Wait until it says that it is ready; the seconds that this took."""
        started = time.monotonic()
        wait_until(self.is_ready, what=f"{self._command} to be ready", seconds=seconds, shown=self.output)
        return time.monotonic() - started

    def is_ready(self) -> bool:
        """What it says now. Raises AssertionError if the process has ended."""
        assert self.process is not None
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.output()}"
        try:
            return httpx2.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    def stop(self) -> int | None:
        """Ask it to end, and wait; its exit status. None if it was not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, without a chance to tidy up."""
        self._end(signal.SIGKILL)

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric; 0 if it has no such sample."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(httpx2.get(f"{self.url}/metrics", timeout=5).text)
            for sample in family.samples
            if sample.name == name and sample.labels.items() >= labels.items()
        )

    def output(self) -> str:
        """What the process has written since its last start."""
        return self._log_file.read_text(errors="replace")

    def events(self, message: str) -> list[dict[str, Any]]:
        """The lines of its log with this message."""
        lines = (json.loads(line) for line in self.output().splitlines() if line.startswith("{"))
        return [line for line in lines if line["message"] == message]

    def crashes(self) -> list[str]:
        """The lines of its log that hold a traceback."""
        return [line for line in self.output().splitlines() if "Traceback" in line]

    @property
    def _log_file(self) -> Path:
        return self._home / f"{self._starts}.log"

    def _end(self, order: signal.Signals) -> int | None:
        process, self.process = self.process, None
        if process is None:
            return None
        process.send_signal(order)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not end within {_STOP_SECONDS:.0f} s:\n{self.output()}") from None


@contextmanager
def operator(*, dsn: str, kubeconfig: Path, **settings: str) -> Iterator[Daemon]:
    """An operator that is not started yet; `settings` are those of `FORMULARY_*` in lower case."""
    port = free_port()
    environment = {"FORMULARY_DATABASE_URL": dsn, "KUBECONFIG": str(kubeconfig), "FORMULARY_HEALTH_PORT": str(port)}
    with _daemon("formulary-operator", "run", environment=environment | _variables(settings), port=port) as daemon:
        yield daemon


@contextmanager
def server(*, dsn: str, user: str = Role.SERVER, kubeconfig: Path | None = None, **settings: str) -> Iterator[Daemon]:
    """A server that is not started yet; unless `settings` say otherwise, a search need not belong to an incident.

    It logs in to the database of `dsn` as `user`; `kubeconfig` is for one that checks its callers.
    """
    port = free_port()
    dsn = as_user(dsn, user)
    environment = {"FORMULARY_DATABASE_URL": dsn, "FORMULARY_PORT": str(port), "FORMULARY_REQUEST_CONTEXT": "optional"}
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    with _daemon("formulary", "serve", environment=environment | _variables(settings), port=port) as daemon:
        yield daemon


@contextmanager
def _daemon(*command: str, environment: dict[str, str], port: int) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="formulary-process-") as home:
        keys = Path(home, "input.key")
        keys.write_text(KEY)
        keyed = {"FORMULARY_INPUT_KEY_FILE": str(keys)} | environment
        daemon = Daemon(*command, environment=keyed, port=port, home=Path(home))
        try:
            yield daemon
        finally:
            daemon.stop()


def _variables(settings: dict[str, str]) -> dict[str, str]:
    return {f"FORMULARY_{name.upper()}": value for name, value in settings.items()}
