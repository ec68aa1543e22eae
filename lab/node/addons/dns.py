"""A cluster DNS: A records of Services, of headless ones by their Endpoints. `dns.py COREFILE`.

Stands in for CoreDNS, which is not to be had here; it reads enough of a Corefile to refuse one that CoreDNS refuses.
"""

import json
import re
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from lab.node.addons.service import get

_REFRESH_SECONDS = 1.0
_PLUGINS = {
    "errors", "health", "ready", "kubernetes", "prometheus", "forward", "cache", "loop", "reload", "loadbalance", "log",
    "rewrite", "hosts", "lameduck", "pods", "fallthrough", "ttl",
}  # fmt: skip
_HEADER = ">HHHHHH"
_AUTHORITATIVE, _NO_NAME = 0x8580, 3

names: dict[str, list[str]] = {}


def main() -> None:
    corefile = Path(sys.argv[1])
    refuse_broken(corefile.read_text(), path=corefile)
    print(".:53\n[INFO] plugin/reload: Running configuration\nCoreDNS-1.8.0", flush=True)
    threading.Thread(target=refresh, daemon=True).start()
    threading.Thread(target=serve_tcp, daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", 53))
        while True:
            question, peer = server.recvfrom(4096)
            with suppress(IndexError, struct.error, UnicodeDecodeError):
                server.sendto(answer_to(question), peer)


def refuse_broken(text: str, *, path: Path) -> None:
    """End with CoreDNS' words for a directive that it does not know."""
    for number, line in enumerate(text.splitlines(), start=1):
        word = (line.split() or [""])[0]
        if re.fullmatch("[a-z]+", word) and word not in _PLUGINS:
            sys.exit(f"{path}:{number} - Error during parsing: Unknown directive '{word}'")


def refresh() -> None:
    """Read Services and Endpoints again and again."""
    global names
    while True:
        try:
            names = read_names()
        except (OSError, json.JSONDecodeError) as error:
            print(f"[ERROR] plugin/kubernetes: Failed to list: {error}", flush=True)
        time.sleep(_REFRESH_SECONDS)


def read_names() -> dict[str, list[str]]:
    """The addresses of each name that the cluster has."""
    endpoints = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each.get("subsets") or []
        for each in get("/api/v1/endpoints")["items"]
    }
    found: dict[str, list[str]] = {}
    for service in get("/api/v1/services")["items"]:
        at = (service["metadata"]["namespace"], service["metadata"]["name"])
        name = f"{at[1]}.{at[0]}.svc.cluster.local"
        address = service["spec"].get("clusterIP")
        if address not in (None, "", "None"):
            found[name] = [address]
            continue
        for subset in endpoints.get(at, []):
            early = subset.get("notReadyAddresses", []) if service["spec"].get("publishNotReadyAddresses") else []
            for each in [*subset.get("addresses", []), *early]:
                found.setdefault(name, []).append(each["ip"])
                if each.get("hostname"):
                    found[f"{each['hostname']}.{name}"] = [each["ip"]]
    return found


def answer_to(question: bytes) -> bytes:
    """The answer to one question: the A records of its name, or that there is no such name."""
    identity, labels, at = question[:2], [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += question[at] + 1
    kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
    addresses = names.get(".".join(labels).lower(), [])
    records = [
        b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 2, 4) + socket.inet_aton(each) for each in addresses if kind == 1
    ]
    code = _AUTHORITATIVE | (0 if addresses else _NO_NAME)
    head = identity + struct.pack(_HEADER, 0, code, 1, len(records), 0, 0)[2:]
    return head + question[12 : at + 5] + b"".join(records)


def serve_tcp() -> None:
    """The same for those who ask by TCP, which probes do."""
    with socket.create_server(("", 53)) as server:
        while True:
            connection, _ = server.accept()
            with connection, suppress(OSError, IndexError, struct.error, UnicodeDecodeError):
                connection.settimeout(2)
                if len(question := connection.recv(4096)) > 14:
                    answer = answer_to(question[2:])
                    connection.sendall(struct.pack(">H", len(answer)) + answer)


if __name__ == "__main__":
    main()
