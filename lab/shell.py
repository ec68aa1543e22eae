"""Runs the snippets of faults, and waits until they hold."""

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from lab.fault import Fault
from lab.node.keeper import PID_FILE
from lab.node.node import Node

_FUNCTIONS = Path(__file__).with_name("functions.sh")
_SNIPPET_SECONDS = 120.0
_POLL_SECONDS = 1.0


class Shell:
    """bash beside a node, in the namespace of a fault. Each method raises RuntimeError once the node has ended."""

    def __init__(self, node: Node, fault: Fault) -> None:
        kubectl = node.kubectl_program
        init = (node.home / PID_FILE).read_text()
        self._node_init = Path("/proc", init)
        self._environment = {
            "PATH": f"{kubectl.parent}:{os.defpath}:/usr/sbin:/sbin",
            "HOME": str(node.home),
            "KUBECONFIG": str(node.kubeconfig),
            "NS": fault.namespace,
            "NODE_PID": init,
        }

    def run(self, snippet: str) -> None:
        """Run it. Raises RuntimeError with what it printed unless it ends with 0."""
        done = self._run(f"set -e\n{snippet}")
        if done.returncode != 0:
            raise RuntimeError(f"snippet ended with {done.returncode}: {done.stdout[-1500:]}\n{snippet}")

    def output(self, command: str) -> str:
        """What it prints, errors too, however it ends."""
        return self._run(command).stdout

    def holds(self, snippet: str) -> bool:
        """Whether each of its lines succeeds."""
        return self._run(f"set -e\n{snippet}").returncode == 0

    def becomes(self, snippet: str, *, seconds: float) -> bool:
        """Whether it holds within a time."""
        until = time.monotonic() + seconds
        while not self.holds(snippet):
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def stays(self, snippet: str, *, seconds: float) -> bool:
        """Whether it holds all the time."""
        until = time.monotonic() + seconds
        while self.holds(snippet):
            if time.monotonic() > until:
                return True
            time.sleep(_POLL_SECONDS)
        return False

    def _run(self, snippet: str) -> subprocess.CompletedProcess[str]:
        bounded = ("timeout", f"{_SNIPPET_SECONDS:.0f}", "bash", "-c", f"source {_FUNCTIONS}\n{snippet}")
        with subprocess.Popen(
            bounded,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment,
        ) as process:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    output, _ = process.communicate(timeout=_POLL_SECONDS)
                    break
                if not self._node_init.exists():
                    process.terminate()  # `timeout` ends what it has started, too
        if not self._node_init.exists():
            raise RuntimeError("the node has ended")
        return subprocess.CompletedProcess(bounded, process.returncode, stdout=output)
