"""The programs that a node consists of: Kubernetes' own, built once and kept in the user's cache, and Debian's.

`python -m lab.node.programs` builds those that are missing.
"""

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from support import control_plane
from support.toolcache import installed, location, run_installer

_CACHED = f"node-bookworm-{platform.machine()}"
_SCRIPT = Path(__file__).parents[2] / "scripts" / "node.sh"
_FROM_DEBIAN = ("containerd", "ctr", "runc", "iptables", "conntrack", "ip", "mkfs.ext4", "busybox", "mmdebstrap")
CNI_PLUGINS = Path("/usr/lib/cni")


class NoNode(Exception):
    """No node can run on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where they are: `control_plane` holds kube-apiserver, etcd and kubectl, `node` all others of Kubernetes."""

    control_plane: Path
    node: Path


def find_programs() -> Programs:
    """The programs on this machine. Raises `NoNode` with what is missing and the command that brings it."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        raise NoNode("a node needs Linux and root, for namespaces, mounts and cgroups")
    if not Path("/sys/fs/cgroup/memory").is_dir():
        raise NoNode("a node needs cgroup v1 with the memory controller at /sys/fs/cgroup/memory")
    missing = [program for program in _FROM_DEBIAN if shutil.which(program) is None]
    if missing or not location(_CACHED).exists():
        raise NoNode(f"run `make node` once (about 10 minutes); missing: {', '.join(missing) or 'kubelet'}")
    try:
        return Programs(control_plane=control_plane.find_assets(), node=location(_CACHED))
    except control_plane.NoControlPlane as error:
        raise NoNode(str(error)) from None


def main() -> None:
    """Build what is missing."""
    try:
        if not location(_CACHED).exists():
            print("building kubelet, kube-proxy, controllers and scheduler: about 10 minutes, once", flush=True)
            installed(name=_CACHED, install=lambda home: run_installer(["bash", _SCRIPT, home]))
        find_programs()
    except (NoNode, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
