"""A real single-node cluster on this machine, for as long as its owner lives.

    with start_node() as node:
        node.kubectl("get", "pods", "--all-namespaces")

Its processes, mounts, addresses and ports live in namespaces of their own. They end with the owner, however it ends.
"""

import fcntl
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.node.containers import copy_store
from lab.node.formulary_image import OWN_PATH, ROOT
from lab.node.images import all_images, prepare_store
from lab.node.init import READY
from lab.node.keeper import PID_FILE, sweep
from lab.node.keys import admin_token, write_kubeconfig
from lab.node.layers import cache
from lab.node.programs import find_programs
from support.control_plane import Cluster

_END_SECONDS = 60.0


class Node(Cluster):
    """A running node, as its administrator."""

    def __init__(self, *, home: Path, kubectl: Path, kubeconfig: Path, url: str) -> None:
        super().__init__(kubectl=kubectl, kubeconfig=kubeconfig, home=home)
        self.home = home
        self.url = url

    def run_inside(self, *command: str | Path, input: str | None = None) -> str:
        """What a command prints as root of the node, among its processes and in its network."""
        pid = (self.home / PID_FILE).read_text()
        inside = ["nsenter", f"--target={pid}", "--mount", "--pid", "--net", "--ipc"]
        done = subprocess.run([*inside, *command], input=input, capture_output=True, text=True, check=True)
        return done.stdout

    @contextmanager
    def forwarded(self, address: str, port: int) -> Iterator[str]:
        """Host and port on loopback of this machine that lead to an address in the network of the node.

        Unlike `kubectl port-forward` it needs no kubelet, which some faults stop.
        """
        pid = (self.home / PID_FILE).read_text()
        # It ends with its owner: what stays in a namespace keeps that alive.
        inside = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--target={pid}", "--net"]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            relay = [sys.executable, "-m", "lab.node.network", str(listener.fileno()), address, str(port)]
            process = subprocess.Popen(
                [*inside, *relay], pass_fds=(listener.fileno(),), cwd=ROOT, start_new_session=True
            )
            host, local = listener.getsockname()
        try:
            yield f"{host}:{local}"
        finally:
            process.terminate()
            process.wait()


@contextmanager
def start_node(say: Callable[[str], None] = lambda line: None) -> Iterator[Node]:
    """A new and empty node; `say` receives its progress.

    Raises:
        NoNode: this machine cannot run one; the message says why.
        RuntimeError: a process of the node ended early, with the end of its log.
    """
    programs = find_programs()
    sweep(_nodes())
    home = _nodes() / f"node-{secrets.token_hex(4)}"
    # Of several processes one makes what is missing, while the others wait.
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = prepare_store(all_images(programs))
        home.mkdir(mode=0o711)
        copy_store(store, home / "containerd")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        keeper = _start_keeper(home, listener)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    try:
        _await_ready(keeper, say)
        kubeconfig = home / "kubeconfig"
        write_kubeconfig(kubeconfig, url=url, keys=home / "keys", token=admin_token(home / "keys"))
        yield Node(home=home, kubectl=programs.control_plane / "kubectl", kubeconfig=kubeconfig, url=url)
    finally:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.close()
        keeper.wait(_END_SECONDS)
        keeper.stdout.close()


def _nodes() -> Path:
    """On the file system of the prepared store, whose files a node links to."""
    path = cache() / "nodes"
    path.mkdir(exist_ok=True)
    return path


def _start_keeper(home: Path, listener: socket.socket) -> subprocess.Popen[str]:
    descriptor = listener.fileno()
    module = ("lab.node.keeper", home, "lab.node.init", home, home.name, str(descriptor))
    return subprocess.Popen(
        [sys.executable, "-m", *module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=(descriptor,),
        start_new_session=True,
        cwd=ROOT,
        env={**os.environ, **OWN_PATH},
    )


def _await_ready(keeper: subprocess.Popen[str], say: Callable[[str], None]) -> None:
    assert keeper.stdout is not None
    printed = []
    for line in keeper.stdout:
        if line.strip() == READY:
            return
        printed.append(line)
        say(line.rstrip())
    raise RuntimeError("the node did not start:\n" + "".join(printed[-30:]))
