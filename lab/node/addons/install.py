"""DNS and resource metrics, which every cluster has and Debian has no packages of, as Deployments in kube-system."""

from pathlib import Path

from lab.node.network import DNS_SERVICE
from lab.node.processes import run

DNS_IMAGE = "registry.k8s.io/coredns/coredns:v1.8.0"
METRICS_IMAGE = "registry.k8s.io/metrics-server/metrics-server:v0.4.2"
_MANIFEST = Path(__file__).with_name("manifest.yaml")


def install_addons(kubectl: tuple[str | Path, ...]) -> None:
    """Apply the manifests of both."""
    manifest = _MANIFEST.read_text()
    for name, value in {"DNS_SERVICE": DNS_SERVICE, "DNS_IMAGE": DNS_IMAGE, "METRICS_IMAGE": METRICS_IMAGE}.items():
        manifest = manifest.replace(f"${{{name}}}", value)
    run(*kubectl, "apply", "--filename=-", input=manifest)
