"""containerd in a node: its configuration, the bridge of its pods, its images."""

import json
import shutil
from pathlib import Path

from lab.node.network import PODS
from lab.node.processes import Processes, succeeds
from lab.node.programs import CNI_PLUGINS

PAUSE_IMAGE = "registry.k8s.io/pause:3.2"
_CONFIGURATION = """\
version = 2
root = "{home}/containerd"
state = "/run/containerd-node"
oom_score = 0
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  # Where root lacks CAP_SYS_RESOURCE, as in many sandboxes, a negative score ends runc.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{home}/cni"
"""


def start_containerd(processes: Processes, *, home: Path) -> None:
    """Start it on the images that lie in `home`, and wait until it answers."""
    (home / "cni").mkdir(exist_ok=True)
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    network = {"cniVersion": "0.4.0", "name": "node", "plugins": plugins}
    (home / "cni" / "10-bridge.conflist").write_text(json.dumps(network))
    configuration = _CONFIGURATION.format(home=home, socket=socket_of(home), pause=PAUSE_IMAGE, cni=CNI_PLUGINS)
    (home / "containerd.toml").write_text(configuration)
    processes.start("containerd", "containerd", "--config", home / "containerd.toml")
    processes.wait_until(lambda: succeeds(*ctr(home), "version"), what="containerd", by="containerd")


def socket_of(home: Path) -> Path:
    """Where containerd listens. The path of a socket has at most 107 bytes, so it is not below `home`."""
    return Path("/run/containerd.sock")


def ctr(home: Path) -> tuple[str | Path, ...]:
    """The command that administers the images of the kubelet."""
    return ("ctr", "--address", socket_of(home), "--namespace", "k8s.io")


def copy_store(source: Path, target: Path) -> None:
    """Copy what containerd keeps. Files of layers are linked, since nothing writes to them; databases are copied."""
    shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> str:
    if source.endswith(".db"):
        return shutil.copy2(source, target)
    Path(target).hardlink_to(source)
    return target
