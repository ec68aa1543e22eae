"""The network of a node: a namespace that nothing leaves and nobody enters but through sockets that it is given.

The namespace vanishes with the processes in it, and its ports, bridges and rules of iptables with it.
"""

import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from lab.node.processes import run

ADDRESS = "10.244.76.1"
PODS = "10.244.77.0/24"
SERVICES = "10.0.0.0/24"
API_SERVICE, DNS_SERVICE = "10.0.0.1", "10.0.0.10"
API_PORT = 6443
_METADATA_OF_CLOUDS = "169.254.0.0/16"
_BLOCK = 65536
_CONNECT_SECONDS = 10.0


def set_up_network() -> None:
    """Give the namespace of this process an address and a default route that leads nowhere."""
    run("ip", "link", "set", "lo", "up")
    # An empty bridge carries the address: not every kernel has dummy interfaces.
    run("ip", "link", "add", "node0", "type", "bridge")
    run("ip", "addr", "add", f"{ADDRESS}/32", "dev", "node0")
    run("ip", "link", "set", "node0", "up")
    # kubelet, API server and kube-proxy look for one.
    run("ip", "route", "add", "default", "dev", "node0")
    # Else the kubelet waits 10 s for the clouds that it may run in.
    for place in (_METADATA_OF_CLOUDS, *_name_servers()):
        with suppress(RuntimeError):
            run("ip", "route", "add", "unreachable", place)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    with suppress(OSError):
        Path("/proc/sys/net/bridge/bridge-nf-call-iptables").write_text("1")


def forward(listener: socket.socket, *, address: str, port: int) -> None:
    """Pass each connection to an address in the namespace of this process, in threads of its own. Does not return.

    The listener was made outside, where clients are. What it passes on leaves from in here.
    """
    while True:
        outside, _ = listener.accept()
        threading.Thread(
            target=_connect, args=(outside,), kwargs={"address": address, "port": port}, daemon=True
        ).start()


def _connect(outside: socket.socket, *, address: str, port: int) -> None:
    try:
        inside = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
    except OSError:
        outside.close()
        return
    inside.settimeout(None)
    threading.Thread(target=_copy, args=(inside, outside), daemon=True).start()
    _copy(outside, inside)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(_BLOCK):
            target.sendall(block)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _name_servers() -> list[str]:
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver ")]


if __name__ == "__main__":  # LISTENER ADDRESS PORT, in the namespace of a node
    forward(socket.socket(fileno=int(sys.argv[1])), address=sys.argv[2], port=int(sys.argv[3]))
