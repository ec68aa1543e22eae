"""The first program inside a node: `init.py HOME CGROUP LISTENER`, run in new namespaces by the keeper.

Mounts, network and processes of the node exist in these namespaces alone, so nothing of them is left when they end.
It ends when its standard input does, which its owner holds open.
"""

import os
import socket
import sys
import time
from pathlib import Path
from threading import Thread

from lab.node.addons.install import install_addons
from lab.node.containers import start_containerd
from lab.node.keys import write_keys
from lab.node.kubernetes import start_control_plane, start_kubelet
from lab.node.network import ADDRESS, API_PORT, API_SERVICE, forward, set_up_network
from lab.node.processes import Processes, run, succeeds
from lab.node.programs import find_programs

READY = "ready"
_OWN_FOLDERS = ("/run", "/var/lib", "/var/log")
"""What kubelet and containerd write to beside their own directories."""


def main() -> None:
    """Start all of a node, say that it is ready, and wait for the end of standard input."""
    home, cgroup, listener = Path(sys.argv[1]), sys.argv[2], socket.socket(fileno=int(sys.argv[3]))
    began = time.monotonic()
    mount_own_folders()
    set_up_network()
    processes, programs, keys = Processes(home), find_programs(), home / "keys"
    write_keys(keys, address=ADDRESS, service_address=API_SERVICE)
    start_containerd(processes, home=home)
    start_control_plane(processes, programs=programs, home=home, keys=keys)
    _say("API server ready", began)
    start_kubelet(processes, programs=programs, home=home, keys=keys, cgroup=cgroup)
    kubectl = (programs.control_plane / "kubectl", f"--kubeconfig={keys / 'admin.kubeconfig'}")
    install_addons(kubectl)
    processes.wait_until(lambda: " Ready" in run(*kubectl, "get", "nodes"), what="the node", by="kubelet")
    _say("node ready", began)
    addons = (*kubectl, "--namespace=kube-system", "wait", "--for=condition=Available", "deployment", "--all")
    processes.wait_until(lambda: succeeds(*addons), what="DNS and metrics", by="kubelet")
    _say("DNS and metrics ready", began)
    Thread(target=forward, args=(listener,), kwargs={"address": ADDRESS, "port": API_PORT}, daemon=True).start()
    print(READY, flush=True)
    sys.stdin.buffer.read()


def mount_own_folders() -> None:
    """Hide the folders of the machine that belong to a node alone behind empty ones."""
    for folder in _OWN_FOLDERS:
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    os.makedirs("/run/lock")


def _say(what: str, began: float) -> None:
    print(f"{time.monotonic() - began:5.1f} s  {what}", flush=True)


if __name__ == "__main__":
    main()
