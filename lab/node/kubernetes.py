"""Kubernetes in a node: etcd, the API server and its controllers, the kubelet and kube-proxy."""

from pathlib import Path

import yaml

from lab.node.containers import PAUSE_IMAGE, socket_of
from lab.node.network import ADDRESS, API_PORT, DNS_SERVICE, PODS, SERVICES
from lab.node.processes import Processes, succeeds
from lab.node.programs import Programs

_ETCD = "http://127.0.0.1:2379"
_ISSUER = "https://kubernetes.default.svc"
_CGROUPS = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")


def start_control_plane(processes: Processes, *, programs: Programs, home: Path, keys: Path) -> None:
    """Start etcd, the API server and its controllers, and wait until the API server is ready."""
    assets, built = programs.control_plane, programs.node
    processes.start(
        "etcd",
        assets / "etcd",
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    processes.start("apiserver", assets / "kube-apiserver", *_api_server_options(keys))
    kubectl = (assets / "kubectl", f"--kubeconfig={keys / 'admin.kubeconfig'}")
    processes.wait_until(lambda: succeeds(*kubectl, "get", "--raw=/readyz"), what="the API server", by="apiserver")
    processes.start(
        "controller-manager",
        built / "kube-controller-manager",
        *_controller_options("controller-manager", keys=keys, home=home),
        f"--service-account-private-key-file={keys / 'service-accounts.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
        f"--cluster-signing-cert-file={keys / 'ca.crt'}",
        f"--cluster-signing-key-file={keys / 'ca.key'}",
        "--use-service-account-credentials",
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=10s",
        "--pod-eviction-timeout=1m",
        "--horizontal-pod-autoscaler-sync-period=5s",
    )
    processes.start("scheduler", built / "kube-scheduler", *_controller_options("scheduler", keys=keys, home=home))


def start_kubelet(processes: Processes, *, programs: Programs, home: Path, keys: Path, cgroup: str) -> None:
    """Start the kubelet below a cgroup of its own, and kube-proxy."""
    _make_cgroups(cgroup)
    (home / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
    (home / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet_configuration(home, cgroup=cgroup)))
    processes.start(
        "kubelet",
        programs.node / "kubelet",
        f"--kubeconfig={keys / 'kubelet.kubeconfig'}",
        f"--config={home / 'kubelet.yaml'}",
        "--container-runtime=remote",
        f"--container-runtime-endpoint=unix://{socket_of(home)}",
        f"--root-dir={home / 'kubelet'}",
        f"--cert-dir={home / 'kubelet-certificates'}",
        "--hostname-override=node1",
        f"--node-ip={ADDRESS}",
        f"--pod-infra-container-image={PAUSE_IMAGE}",
    )
    (home / "proxy.yaml").write_text(yaml.safe_dump(_proxy_configuration(keys)))
    processes.start("proxy", programs.node / "kube-proxy", f"--config={home / 'proxy.yaml'}")


def remove_cgroups(cgroup: str) -> None:
    """Remove what the processes of a node that has ended were accounted in."""
    for below in _CGROUPS.glob(f"*/{cgroup}"):
        for folder in sorted(below.rglob("*/"), key=lambda each: len(each.parts), reverse=True):
            folder.rmdir()
        below.rmdir()


def _make_cgroups(cgroup: str) -> None:
    for controller in _CONTROLLERS:
        (_CGROUPS / controller / cgroup).mkdir(exist_ok=True)
    for file in ("cpuset.cpus", "cpuset.mems"):
        (_CGROUPS / "cpuset" / cgroup / file).write_text((_CGROUPS / "cpuset" / file).read_text())


def _api_server_options(keys: Path) -> list[str]:
    return [
        f"--etcd-servers={_ETCD}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={ADDRESS}",
        f"--secure-port={API_PORT}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--cert-dir={keys}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--token-auth-file={keys / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={keys / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={keys / 'service-accounts.key'}",
        f"--api-audiences={_ISSUER}",
        f"--service-cluster-ip-range={SERVICES}",
        # The aggregation layer, for metrics.k8s.io.
        f"--requestheader-client-ca-file={keys / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={keys / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={keys / 'front-proxy-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
    ]


def _controller_options(name: str, *, keys: Path, home: Path) -> list[str]:
    kubeconfig = keys / f"{name}.kubeconfig"
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--cert-dir={home / name}",
        "--bind-address=127.0.0.1",
        "--port=0",
        "--leader-elect=false",
    ]


def _kubelet_configuration(home: Path, *, cgroup: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "port": 10250,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failSwapOn": False,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(home / "resolv.conf"),
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "2%", "imagefs.available": "2%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "volumePluginDir": str(home / "kubelet-plugins"),
        # Ready after 13 s instead of 29 s.
        "nodeStatusUpdateFrequency": "1s",
        "syncFrequency": "10s",
        "fileCheckFrequency": "5s",
    }


def _proxy_configuration(keys: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "bindAddress": "127.0.0.1",
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clusterCIDR": PODS,
        "hostnameOverride": "node1",
        "clientConnection": {"kubeconfig": str(keys / "proxy.kubeconfig")},
        # The limits of connection tracking are the machine's; a namespace may not change them.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
    }
