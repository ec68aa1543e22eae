"""Containers of a release as local processes: their commands, environment, files and ServiceAccount tokens.

What a kubelet adds is put in its place: loopback and free ports for the pod's own, a kubeconfig for the mounted token.
"""

import base64
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.control_plane import Cluster, free_port
from support.operator_process import Daemon

_LISTENS = ("FORMULARY_HEALTH_PORT", "FORMULARY_WEBHOOK_PORT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What one container runs, ready for this machine. `ports` maps its own ports to those it has here."""

    command: list[str]
    environment: dict[str, str]
    ports: dict[int, int] = field(default_factory=dict)

    def redirected(self, **urls: str) -> "Container":
        """The same with other addresses in its arguments, by the host that they name."""
        command = [next((url for host, url in urls.items() if f"//{host}." in part), part) for part in self.command]
        return Container(command=command, environment=self.environment, ports=self.ports)


@contextmanager
def container(cluster: Cluster, pod: Mapping[str, Any], *, namespace: str, name: str = "pod") -> Iterator[Container]:
    """The first container of a pod's spec; its files are removed at the end."""
    (spec, *_) = pod["containers"]
    home = Path(tempfile.mkdtemp(prefix="formulary-pod-"))
    try:
        mounts = dict(_mounted(cluster, pod, spec, namespace=namespace, home=home))
        environment = dict(_environment(cluster, spec.get("env", []), namespace=namespace, name=name))
        environment = {variable: _here(value, mounts) for variable, value in environment.items()}
        ports = {port["containerPort"]: free_port() for port in spec.get("ports", [])}
        for variable in _LISTENS:
            if int(environment.get(variable, 0)) in ports:
                environment[variable] = str(ports[int(environment[variable])])
        environment["FORMULARY_WEBHOOK_HOST"] = "127.0.0.1"
        if pod.get("automountServiceAccountToken"):
            environment["KUBECONFIG"] = str(_kubeconfig(cluster, pod, namespace=namespace))
        command = [_local(part, ports) for part in (*spec["command"], *spec.get("args", []))]
        yield Container(command=command, environment={k: _local(v, {}) for k, v in environment.items()}, ports=ports)
    finally:
        shutil.rmtree(home)


@contextmanager
def running(found: Container, *, probe: int) -> Iterator[Daemon]:
    """A container's process, started; `probe` is its port with `/readyz`."""
    with tempfile.TemporaryDirectory(prefix="formulary-process-") as home:
        daemon = Daemon(*found.command, environment=found.environment, port=found.ports[probe], home=Path(home))
        try:
            yield daemon.start()
        finally:
            daemon.stop()


def _here(path: str, mounts: Mapping[str, str]) -> str:
    """Where a mounted directory, or a file in it, is here; any other value as it is."""
    there = next((mount for mount in mounts if path == mount or path.startswith(f"{mount}/")), None)
    return path if there is None else mounts[there] + path.removeprefix(there)


def _local(text: str, ports: Mapping[int, int]) -> str:
    if text == "0.0.0.0":
        return "127.0.0.1"
    return str(ports[int(text)]) if text.isdigit() and int(text) in ports else text


def _environment(
    cluster: Cluster, entries: list[dict[str, Any]], *, namespace: str, name: str
) -> Iterator[tuple[str, str]]:
    fields = {"metadata.namespace": namespace, "metadata.name": name}
    for entry in entries:
        source = entry.get("valueFrom", {})
        if secret := source.get("secretKeyRef"):
            yield entry["name"], _secret(cluster, secret["name"], namespace=namespace)[secret["key"]]
        elif source:
            yield entry["name"], fields[source["fieldRef"]["fieldPath"]]
        else:
            yield entry["name"], entry.get("value", "")


def _mounted(
    cluster: Cluster, pod: Mapping[str, Any], spec: Mapping[str, Any], *, namespace: str, home: Path
) -> Iterator[tuple[str, str]]:
    """Where the Secrets that a container mounts are here, by where they are there."""
    secrets = {v["name"]: v["secret"]["secretName"] for v in pod.get("volumes", []) if "secret" in v}
    for mount in spec.get("volumeMounts", []):
        if mount["name"] in secrets:
            directory = home / mount["name"]
            directory.mkdir()
            for key, value in _secret(cluster, secrets[mount["name"]], namespace=namespace).items():
                (directory / key).write_text(value)
            yield mount["mountPath"], str(directory)


def _secret(cluster: Cluster, name: str, *, namespace: str) -> dict[str, str]:
    data = cluster.get("secret", name, f"--namespace={namespace}")["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def _kubeconfig(cluster: Cluster, pod: Mapping[str, Any], *, namespace: str) -> Path:
    """A kubeconfig with a token of the pod's ServiceAccount, which must be there, and its namespace."""
    token = cluster.kubectl("create", "token", pod["serviceAccountName"], f"--namespace={namespace}").strip()
    return cluster.kubeconfig_for(token)
